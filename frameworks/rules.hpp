#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frameworks/framework.hpp"
#include "frameworks/glob.hpp"
#include "frameworks/scan.hpp"

// A framework's description, compiled into questions about paths.

namespace compilecache::frameworks {

// Immutable, safe from any thread.
class Rules {
 public:
  explicit Rules(const Framework& framework);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool never_packed(std::string_view path) const;
  [[nodiscard]] bool not_compiled(std::string_view path) const;
  [[nodiscard]] bool named_by_content(std::string_view path) const;
  // The prefix of the files that this file is the index of, "d/f" for "d/f.nbi"; empty: it is no
  // index.
  [[nodiscard]] std::string_view index_of(std::string_view path) const;
  [[nodiscard]] bool has_indexes() const { return !index_files_.empty(); }
  [[nodiscard]] bool only_from_warm(std::string_view path) const;
  [[nodiscard]] bool must_agree(std::string_view path) const;
  // How to see whether the file is whole; a file that is not is of no use to anybody.
  enum class WholeBy { kNothing, kElf, kStream };
  [[nodiscard]] WholeBy whole_by(std::string_view path) const;
  [[nodiscard]] bool portable(std::string_view path) const;

  // The temporary file or folder that `path` is or is in.
  [[nodiscard]] std::optional<std::string_view> temporary(std::string_view path,
                                                          bool is_directory) const;
  // The prefix of a build folder's outputs: "ab/cxyz" for "ab/cxyz_CxxBuild".
  [[nodiscard]] std::optional<std::string_view> build_stem(std::string_view directory) const;
  // The folder with a completion rule that `path` is in, and the rule's number.
  struct Completable {
    std::string_view directory;
    size_t rule;
  };
  [[nodiscard]] std::optional<Completable> completable(std::string_view path) const;
  // Whether the file `name` makes such a folder complete.
  [[nodiscard]] bool completes(size_t rule, std::string_view name) const;

  // The entry directory that the file is in.
  [[nodiscard]] std::optional<std::string_view> entry_directory(std::string_view path) const;
  // Whether the file itself stands for a key, and whether a new one then proves that something was
  // compiled (Framework::entry_files) or not (derived_files).
  enum class EntryFile { kNone, kProof, kDerived };
  [[nodiscard]] EntryFile entry_file(std::string_view path) const;
  // The folder of a rank that the file is in.
  [[nodiscard]] std::optional<std::string_view> rank_directory(std::string_view path) const;
  // Whether the file is one of Framework::key_factors.
  [[nodiscard]] bool is_key_factors(std::string_view path) const;
  // The smallest part that is useful by itself: the entry directory or completable folder of the
  // file, else the file.
  [[nodiscard]] std::string_view unit(std::string_view path) const;
  // The files that one piece of work makes: the unit, or all files beside it with the same stem,
  // "ab/cx" for "ab/cx.main.so".
  [[nodiscard]] std::string_view stem(std::string_view path) const;
  // The part that the file stays in archives with: the deepest of Framework::unit_directories above
  // it, else its stem. Frameworks check that ab/cx.so exists, and read ab/cx.py alone.
  [[nodiscard]] std::string_view family(std::string_view path) const;
  // Whether the file stands for a key, alone or with others.
  [[nodiscard]] bool is_of_entry(std::string_view path) const;

 private:
  struct Pattern {
    Glob glob;
    bool by_name;
    bool only_directories;
  };
  struct CompletionRule {
    Glob directory;
    std::vector<std::string> markers;
  };
  static std::vector<Pattern> compile(const std::vector<std::string>& patterns);
  static bool matches(const Pattern& pattern, const std::vector<std::string_view>& path,
                      size_t count);
  // Whether one of them matches the path or a folder that it is in.
  static bool covered(const std::vector<Pattern>& patterns, std::string_view path);

  // The first folder that the file is in and that one of them matches.
  static std::optional<std::string_view> folder_of(const std::vector<Glob>& folders,
                                                   std::string_view path);

  std::string name_;
  std::vector<Pattern> never_pack_, not_compiled_, named_by_content_, temporary_,
      build_directories_, elf_files_, stream_files_, only_from_warm_, index_files_, must_agree_,
      portable_files_;
  std::vector<Glob> entry_directories_, entry_files_, derived_files_, key_factors_,
      rank_directories_, unit_directories_;
  std::vector<CompletionRule> completions_;
};

// A part of the directory that is not finished: a temporary file, a folder that lacks its marker,
// the outputs of a build that still runs.
struct UnfinishedUnit {
  std::string path;
  WallTime newest{};  // the last change of anything in it
};

struct Classified {
  // One for each item of the scan: the number of the unfinished unit that it belongs to, or -1.
  std::vector<int> unit_of;
  std::vector<UnfinishedUnit> units;
};

// Finds them without checking ELF files, which needs their bytes.
Classified find_unfinished(const Rules& rules, const Scan& scan);

}  // namespace compilecache::frameworks
