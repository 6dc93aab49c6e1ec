#pragma once

#include <set>
#include <string>

#include "frameworks/framework.hpp"
#include "frameworks/plan.hpp"
#include "frameworks/rules.hpp"
#include "frameworks/scan.hpp"

// A cache directory that tests fill by hand: what torch does in it, file by file.

namespace compilecache::frameworks {

// As in config/settings.yaml.
inline Framework torch() {
  Framework framework;
  framework.name = "torch";
  framework.entry_directories = {"fxgraph/*/*", "aotautograd/*"};
  framework.never_pack = {"locks/**", "**/*.lock"};
  framework.temporary = {"**/.*.tmp", "**/tmp.*",
                         "tmp????????"
                         "/"};
  framework.build_directories = {"**/*_CxxBuild"};
  framework.completions = {{"triton/*/*", "__grp__*.json|*.so"}};
  framework.elf_files = {"**/*.so"};
  return framework;
}

inline Framework triton() {
  Framework framework;
  framework.name = "triton";
  framework.derived_files = {"*/__grp__*.json"};
  framework.temporary = {"**/tmp.*"};
  framework.completions = {{"*", "__grp__*.json|*.so"}};
  return framework;
}

inline WallTime at(double seconds) {
  return WallTime(std::chrono::hours(24 * 365 * 50)) +
         std::chrono::duration_cast<WallTime::duration>(std::chrono::duration<double>(seconds));
}

struct Directory {
  Scan scan;
  LoadedFiles loaded{{}, at(0), true};
  std::set<std::string> held;
  PathSet torn;  // ELF files that are not whole

  FileInfo& add(const std::string& path, double time, FileType type = FileType::kRegular) {
    scan.push_back({path, type, 100, at(time), at(time), at(time)});
    return scan.back();
  }
  void folder(const std::string& path, double time) { add(path, time, FileType::kDirectory); }
  // A file that the loader put there at second 0 out of the archive, which holds it.
  void load(const std::string& path) {
    add(path, -1).accessed = kUnreadTime;
    loaded.files.insert(path);
    held.insert(path);
  }
  FileInfo& find(const std::string& path) {
    for (FileInfo& file : scan) {
      if (file.path == path) return file;
    }
    throw std::runtime_error("no " + path);
  }
  void read(const std::string& path, double time) { find(path).accessed = at(time); }
};

}  // namespace compilecache::frameworks
