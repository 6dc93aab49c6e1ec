#include "peers.hpp"

namespace compilecache::bench {
namespace {

// The agent by hand: the volume's index, no operator.
std::string agent_command(const std::string& agent, const std::string& command,
                          const std::string& directory, const std::string& control) {
  const std::string config =
      R"({"cache":"bench","store": {"volume": {}}, "store_mount":"'$ARC'/store","control_path":"')" +
      control + R"('","directories":[{"path":"')" + directory +
      R"('","framework":{"name":"torch"}}],"key_basis":{"parts":["Architecture"]}})";
  return "COMPILECACHE_CONFIG='" + config + "' " + agent + " " + command + " 2>$ARC/log";
}

// The functions of the package that pack and unpack; the rest of it asks for a GPU and 100 GB.
std::string b10_command(const std::string& python, const std::string& calls) {
  return python + " -c 'import subprocess, sys; from pathlib import Path; " + calls + "' ";
}

}  // namespace

std::vector<Peer> peers(const std::string& agent, const std::string& b10_python) {
  const std::string python = "python3 -c '";
  std::vector<Peer> all = {
      {"cp", "cp -r $SRC $ARC/tree", "cp -r $ARC/tree $DST"},
      {"ours", agent_command(agent, "save --once", "$SRC", "$ARC/control"),
       agent_command(agent, "load", "$DST", "$DST.control") +
           " && grep -q SUCCESS $DST.control/status.json"},
      // A save of ours waits for the disk; so much of its time is that.
      {"cp, synced", "cp -r $SRC $ARC/tree && sync -f $ARC/tree", "cp -r $ARC/tree $DST"},
      {"tar|zstd", "tar -C $SRC -cf - . | zstd -q -9 -T0 -o $ARC/tree.tar.zst",
       "mkdir $DST && zstd -dcq $ARC/tree.tar.zst | tar -xf - -C $DST"},
      {"py zip (fal's way)",
       python + "import shutil, sys; shutil.make_archive(*sys.argv[1:])' $ARC/tree zip $SRC",
       python + "import shutil, sys; shutil.unpack_archive(*sys.argv[1:])' $ARC/tree.zip $DST",
       true},
      {"py tar.gz (b10's way)",
       python + "import sys, tarfile; tarfile.open(sys.argv[1], \"w:gz\").add(sys.argv[2], \".\")' "
                "$ARC/tree.tar.gz $SRC",
       python + "import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "
                "$ARC/tree.tar.gz $DST",
       true},
  };
  if (!b10_python.empty()) {
    all.push_back({"b10-transfer",
                   b10_command(b10_python,
                               "from b10_transfer import archive; "
                               "archive._compress_directory_to_tar(Path(sys.argv[1]), "
                               "Path(sys.argv[2]))") +
                       "$SRC $ARC/tree.tar.gz",
                   b10_command(b10_python,
                               "import b10_transfer; Path(sys.argv[2]).mkdir(); "
                               "subprocess.run([\"tar\", \"-xzf\", sys.argv[1], \"-C\", "
                               "sys.argv[2]], check=True)") +
                       "$ARC/tree.tar.gz $DST",
                   true});
  }
  return all;
}

}  // namespace compilecache::bench
