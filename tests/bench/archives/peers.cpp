#include "peers.hpp"

#include <cstdio>
#include <filesystem>

#include "archive/extract.hpp"
#include "archive/index.hpp"
#include "archive/store.hpp"
#include "archive/write.hpp"

namespace compilecache::bench {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "bench";

int failed(const Error& error) {
  std::fprintf(stderr, "%s\n", error.message.c_str());
  return 1;
}

std::string head(const std::string& store) {
  const auto index = archive::read_index(store);
  return index.entries.empty() ? "" : index.entries.front().digest;
}

int save(const std::string& store, const std::string& tree) {
  if (auto made = archive::prepare_store(store, {"cluster", "namespace", "uid"}, false); !made)
    return failed(made.error());
  archive::WriteRequest request;
  request.parent = head(store);
  for (const auto& entry : fs::recursive_directory_iterator(tree)) {
    if (!entry.is_regular_file()) continue;
    const std::string path = entry.path().string();
    request.files.push_back({path, "torch" + path.substr(tree.size())});
  }
  auto saved = archive::write_archive(store, request);
  if (!saved) return failed(saved.error());
  if (saved->nothing_new) return 0;
  const archive::IndexEntry entry{
      saved->archive.manifest, saved->archive.manifest_bytes, {{archive::kAnnotationName, kName}}};
  if (auto written = archive::write_index(store, {entry}); !written) return failed(written.error());
  return 0;
}

int load(const std::string& store, const std::string& directory) {
  archive::ExtractOptions options;
  options.roots = {{"torch", directory}};
  auto loaded = archive::extract(store, head(store), options);
  return loaded ? 0 : failed(loaded.error());
}

}  // namespace

std::vector<Peer> peers(const std::string& this_program) {
  const std::string python = "python3 -c '";
  return {
      {"cp", "cp -r $SRC $ARC/tree", "cp -r $ARC/tree $DST"},
      {"ours", this_program + " save $ARC/store $SRC", this_program + " load $ARC/store $DST"},
      {"tar|zstd", "tar -C $SRC -cf - . | zstd -q -9 -T0 -o $ARC/tree.tar.zst",
       "mkdir $DST && zstd -dcq $ARC/tree.tar.zst | tar -xf - -C $DST"},
      {"py zip",
       python + "import shutil, sys; shutil.make_archive(*sys.argv[1:])' $ARC/tree zip $SRC",
       python + "import shutil, sys; shutil.unpack_archive(*sys.argv[1:])' $ARC/tree.zip $DST"},
      {"py tar.gz",
       python + "import sys, tarfile; tarfile.open(sys.argv[1], \"w:gz\").add(sys.argv[2], \".\")' "
                "$ARC/tree.tar.gz $SRC",
       python + "import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "
                "$ARC/tree.tar.gz $DST"},
  };
}

int run_as_peer(const std::vector<std::string>& arguments) {
  return arguments[0] == "save" ? save(arguments[1], arguments[2])
                                : load(arguments[1], arguments[2]);
}

}  // namespace compilecache::bench
