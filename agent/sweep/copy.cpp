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

enum class Copied { kHere, kLeftOut, kNoMore };

// Copies one archive and reports it. kNoMore: the operator takes no others either; `why` says why.
Result<Copied> copy_one(store::Store& from, store::Store& to, const TrustGate::LetIn& let_in,
                        const CopyRules& rules, std::string& why) {
  const store::IndexEntry& entry = *let_in.save;
  const auto copied = store::copy_archive(from, to, entry.digest);
  if (!copied && !is_lost(copied.error())) return unexpected(copied.error());
  if (!copied) {
    log_warn(
        "an archive is left out",
        {{"archive", entry.name()}, {"digest", entry.digest}, {"error", copied.error().message}});
    return Copied::kLeftOut;
  }
  log_copied(entry, *copied);
  // A registry that takes no signatures still has the archive.
  if (auto signatures = store::copy_signatures(from, to, entry.digest); !signatures) {
    log_warn("an archive's signatures are not copied along",
             {{"archive", entry.name()}, {"error", signatures.error().message}});
  }
  api::FoundArchive found = found_archive(entry, copied->archive);
  if (found.saved_at.empty() && copied->newest_file_ns > 0) found.saved_at = about_when(*copied);
  found.signatures = let_in.signatures;
  const auto wanted = rules.tell(std::move(found));
  if (!wanted) {
    why = wanted.error().with("telling the operator of a copied archive").message;
    return Copied::kNoMore;
  }
  if (!*wanted) {
    log_warn("the operator leaves an archive out",
             {{"archive", entry.name()}, {"digest", entry.digest}});
  }
  return *wanted ? Copied::kHere : Copied::kLeftOut;
}

std::string nothing_to_copy(const store::Store& from, const store::Index& archives) {
  if (!archives.problems.empty()) return archives.problems.front();
  if (!archives.entries.empty()) return "";
  return from.describe() +
         " names no archive; spec.storage.copyFrom.cache must be the name of the CompileCache that "
         "saved there";
}

constexpr size_t kMostNamed = 5;

// "a, b and others"
std::string in_words(const std::vector<std::string>& names, size_t count) {
  return join(names, ", ") + (count > names.size() ? " and others" : "");
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
    const std::string start = std::to_string(count_) + " archives of " + from.describe() +
                              " have no signature by a key of spec.trust.publicKeys (" +
                              in_words(names_, count_) + "): ";
    return start + (from.signatures() == nullptr
                        ? "a volume has none; copy them into a registry, sign them there, and copy "
                          "from that, or take the keys out"
                        : "sign them (kubectl compilecache sign), or take the keys out");
  }

 private:
  std::vector<std::string> names_;
  size_t count_ = 0;
};

// Archives that another attempt may still copy.
class Failed {
 public:
  void add(const store::IndexEntry& entry, const Error& error) {
    log_warn("an archive is not copied",
             {{"archive", entry.name()}, {"digest", entry.digest}, {"error", error.message}});
    if (count_++ == 0) first_ = error.message;
    if (names_.size() < kMostNamed) names_.push_back(entry.name());
  }
  // "" where there was none.
  [[nodiscard]] std::string told() const {
    if (count_ == 0) return "";
    if (count_ == 1) return first_;
    return std::to_string(count_) + " archives cannot be copied (" + in_words(names_, count_) +
           "); the first: " + first_;
  }

 private:
  std::vector<std::string> names_;
  size_t count_ = 0;
  std::string first_;
};

}  // namespace

CopiedArchives copy_archives(store::Store& from, store::Store& to, const CopyRules& rules) {
  const auto archives = store::saves_in(from);
  if (!archives) return {.error = archives.error().message};
  CopiedArchives result;
  std::string no_more;
  Unsigned nobodys;
  Failed failed;
  for (const auto saves : store::by_name(archives->entries)) {
    if (rules.known.contains(found_archive(saves.front(), {}).key)) {
      ++result.there;
      continue;
    }
    if (!rules.in_time()) {
      no_more = "the Job's time to copy is over";
      break;
    }
    const auto trusted = rules.trust.first_let_in(from, saves);
    if (trusted && trusted->save == nullptr) {
      nobodys.add(saves.front());
      continue;
    }
    const auto here = trusted ? copy_one(from, to, *trusted, rules, no_more)
                              : Result<Copied>(unexpected(trusted.error()));
    if (!here) {
      failed.add(saves.front(), here.error());
      continue;
    }
    if (*here == Copied::kNoMore) break;
    ++(*here == Copied::kHere ? result.there : result.left_out);
  }
  std::vector<std::string> why{no_more, failed.told(), nobodys.told(from),
                               nothing_to_copy(from, *archives)};
  std::erase(why, "");
  result.error = join(why, "; ");
  return result;
}

}  // namespace compilecache::agent
