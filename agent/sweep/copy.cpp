#include "agent/sweep/copy.hpp"

#include <chrono>

#include "agent/index_lookup.hpp"
#include "base/log.hpp"
#include "base/strings.hpp"
#include "base/time_format.hpp"
#include "store/access/copy.hpp"
#include "store/offline_index.hpp"

namespace compilecache::agent {
namespace {

// A manifest does not say when it was saved, and an index may not: about when its newest file was
// written.
std::string about_when(const store::CopyReport& copied) {
  const std::chrono::nanoseconds since(copied.newest_file_ns);
  return format_time(WallTime(std::chrono::duration_cast<WallTime::duration>(since)));
}

void log_copied(const store::IndexEntry& entry, const store::CopyReport& copied) {
  log_info("copied an archive", {{"archive", entry.name()},
                                 {"digest", entry.digest},
                                 {"blobs", std::to_string(copied.copied_blobs)},
                                 {"bytes", std::to_string(copied.copied_bytes)}});
}

// Copies one archive and tells of it; whether it is here then, or else is left out.
Result<bool> copy_one(store::Store& from, store::Store& to, const store::IndexEntry& entry,
                      const CopyRules& rules) {
  const auto copied = store::copy_archive(from, to, entry.digest);
  if (!copied && !is_lost(copied.error())) return unexpected(copied.error());
  if (!copied) {
    log_warn(
        "an archive is left out",
        {{"archive", entry.name()}, {"digest", entry.digest}, {"error", copied.error().message}});
    return false;
  }
  log_copied(entry, *copied);
  // A registry that takes no signatures still has the archive.
  if (auto signatures = store::copy_signatures(from, to, entry.digest); !signatures) {
    log_warn("an archive's signatures are not copied along",
             {{"archive", entry.name()}, {"error", signatures.error().message}});
  }
  api::FoundArchive found = found_archive(entry, copied->archive);
  if (found.saved_at.empty() && copied->newest_file_ns > 0) found.saved_at = about_when(*copied);
  auto wanted = rules.tell(std::move(found));
  if (!wanted) return unexpected(wanted.error().with("telling the operator of a copied archive"));
  if (!*wanted) {
    log_warn("the operator leaves an archive out",
             {{"archive", entry.name()}, {"digest", entry.digest}});
  }
  return wanted;
}

std::string nothing_to_copy(const store::Store& from, const store::Index& archives) {
  if (!archives.problems.empty()) return archives.problems.front();
  if (!archives.entries.empty()) return "";
  return from.describe() +
         " names no archive; spec.storage.copyFrom.cache must be the name of the CompileCache that "
         "saved there";
}

// Why the copy is not done, for who is to sign: the first few by name.
class Unsigned {
 public:
  void add(const store::IndexEntry& entry) {
    log_warn("an archive is left out: nobody that spec.trust names has signed it",
             {{"archive", entry.name()}, {"digest", entry.digest}});
    if (names_.size() < kMostNamed) names_.push_back(entry.name());
    ++count_;
  }
  // "" where there was none.
  [[nodiscard]] std::string told(store::Store& from) const {
    if (count_ == 0) return "";
    const std::string which = join(names_, ", ") + (count_ > names_.size() ? " and others" : "");
    const std::string start = std::to_string(count_) + " archives of " + from.describe() +
                              " have no signature by a key of spec.trust.publicKeys (" + which +
                              "): ";
    return start + (from.signatures() == nullptr
                        ? "a volume has none; copy them into a registry, sign them there, and copy "
                          "from that, or take the keys out"
                        : "sign them (kubectl compilecache sign), or take the keys out");
  }

 private:
  static constexpr size_t kMostNamed = 5;
  std::vector<std::string> names_;
  size_t count_ = 0;
};

}  // namespace

CopiedArchives copy_archives(store::Store& from, store::Store& to, const CopyRules& rules) {
  const store::Index archives = store::archives_in(from);
  CopiedArchives result{.error = nothing_to_copy(from, archives)};
  Unsigned nobodys;
  for (const store::IndexEntry& entry : archives.entries) {
    if (rules.known.contains(found_archive(entry, {}).key)) {
      ++result.there;
      continue;
    }
    if (!rules.in_time()) {
      result.error = "the Job's time to copy is over";
      break;
    }
    const auto trusted = rules.trust.lets_in(from, entry.digest);
    if (trusted && !*trusted) {
      nobodys.add(entry);
      continue;
    }
    const auto here = trusted ? copy_one(from, to, entry, rules) : trusted;
    if (!here) {
      result.error = here.error().message;
      break;
    }
    ++(*here ? result.there : result.left_out);
  }
  if (result.error.empty()) result.error = nobodys.told(from);
  return result;
}

}  // namespace compilecache::agent
