#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <ostream>
#include <set>
#include <span>

#include "archive/extract/extract.hpp"
#include "archive/format.hpp"
#include "archive/manifest.hpp"
#include "archive/write/write.hpp"
#include "tests/unit/store/places.hpp"

// Runs the same history on each kind of store: saves, loads and checks, between which blobs are
// damaged, lost and swept. All kinds return the same results and have the same content afterwards.
// With a registry among them a history has less: archives alone are deleted, nothing is looked for
// in an index, and damaged blobs have another length.
// More histories are tried with RC_PARAMS="max_success=2000".

namespace compilecache::store::test {
namespace {

namespace fs = std::filesystem;
using archive::test::Tree;

[[maybe_unused]] const int kInMemory =
    ::access("/dev/shm", W_OK) == 0 ? ::setenv("TMPDIR", "/dev/shm", 0) : 0;

int number(int from, int below) { return *rc::gen::inRange(from, below); }

template <typename T>
const T& one_of(const std::vector<T>& all) {
  return all[static_cast<size_t>(number(0, static_cast<int>(all.size())))];
}

Tree some_tree() {
  Tree tree;
  for (int i = number(1, 5); i > 0; --i) {
    const std::string path = std::string(1, static_cast<char>('a' + number(0, 6)));
    const auto size = static_cast<size_t>(number(0, 90'000));
    tree[path] = {archive::test::noise(size, static_cast<uint64_t>(number(0, 4))),
                  number(0, 4) == 0};
  }
  return tree;
}

// The result of a step: the error's code and blob, and what was made or read.
struct Told {
  std::string code = "fine", digest, result;
  Tree tree;
  bool operator==(const Told&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Told& told) {
  out << told.code << " blob \"" << told.digest << "\" result \"" << told.result << "\" files {";
  for (const auto& [path, file] : told.tree)
    out << " " << path << ":" << file.bytes.size() << (file.executable ? "x" : "");
  return out << " }";
}

Told told_of(const Error& error) { return {to_string(error.code), error.digest, "", {}}; }

std::string summary(const archive::WriteResult& written) {
  std::string text = written.archive.manifest;
  text += written.nothing_new ? " nothing-new" : "";
  text += written.compacted ? " compacted" : "";
  for (const uint64_t count : {written.archive.layers.size(), written.archive.compressed_bytes,
                               written.added_files, written.written_bytes})
    text += " " + std::to_string(count);
  return text;
}

// The content of a store, without the times.
std::string contents(Place& place) {
  std::string text;
  const auto blobs = place.upkeep().list();
  RC_ASSERT(blobs.has_value());
  for (const StoredBlob& blob : *blobs)
    text += blob.digest + " " + std::to_string(blob.size) + "\n";
  const Index index = place.index().read_index().value();
  for (const IndexEntry& entry : index.entries)
    text += entry.name() + " " + std::to_string(entry.generation()) + " " + entry.digest + "\n";
  return text;
}

class History {
 public:
  explicit History(std::span<const Kind> kinds) {
    for (const Kind kind : kinds) {
      places_.push_back(make_place(kind, temp_.path()));
      single_blobs_ = single_blobs_ && places_.back()->has_single_blobs();
      RC_ASSERT(places_.back()->upkeep().prepare({"cluster", "ml", "uid"}, false).has_value());
    }
  }

  void step() {
    switch (heads_.empty() ? 0 : number(0, 8)) {
      case 0:
      case 1:
      case 2:
        return save();
      case 3:
        return load();
      case 4:
        return verify();
      case 5:
        return damage();
      case 6:
        return lose();
      default:
        return sweep();
    }
  }

  void expect_same_contents() {
    if (!single_blobs_) return expect_same_sizes();
    const std::string first = contents(*places_.front());
    for (const auto& place : places_) RC_ASSERT(contents(*place) == first);
  }

 private:
  void expect_same_sizes() {
    for (const std::string& digest : blobs_) {
      each([&](Place& place) -> Told {
        const auto size = place.store().size_of(digest);
        return size ? Told{"fine", "", std::to_string(*size), {}} : told_of(size.error());
      });
    }
  }

  // Runs the step on each store, asserts that all results are equal, and returns the result.
  template <typename Step>
  Told each(const Step& step) {
    std::optional<Told> first;
    for (const auto& place : places_) {
      const Told told = step(*place);
      if (!first) first = told;
      RC_ASSERT(told == *first);
    }
    return *first;
  }

  void save() {
    const std::string root = temp_.path("source");
    archive::test::write_tree(root, some_tree());
    archive::WriteRequest request;
    if (!heads_.empty() && number(0, 5) > 0) request.parent = one_of(heads_);
    request.settings.compression_level = 1;
    request.settings.frame_bytes = 64 << 10;
    request.settings.max_archive_bytes = number(0, 8) == 0 ? 50'000 : 1 << 30;
    for (const auto& file : fs::recursive_directory_iterator(root)) {
      const std::string path = file.path().string();
      request.files.push_back({path, "torch/" + fs::relative(path, root).string()});
    }
    if (!blobs_.empty() && number(0, 3) == 0) request.without = {one_of(blobs_)};
    std::optional<archive::ArchiveInfo> made;
    const Told told = each([&](Place& place) -> Told {
      auto written = archive::write_archive(place.store(), request);
      if (!written) return told_of(written.error());
      made = written->archive;
      return {"fine", "", summary(*written), {}};
    });
    fs::remove_all(root);
    if (told.code != "fine" || made->manifest.empty()) return;
    heads_.push_back(made->manifest);
    for (const std::string& blob : made->blobs()) blobs_.push_back(blob);
    if (single_blobs_) note(*made);
  }

  void note(const archive::ArchiveInfo& made) {
    const IndexEntry entry{made.manifest,
                           made.manifest_bytes,
                           {{archive::kAnnotationName, number(0, 2) == 0 ? "one" : "two"},
                            {archive::kAnnotationGeneration, std::to_string(number(1, 6))}}};
    each([&](Place& place) -> Told {
      const auto noted = place.index().update_index(entry);
      return noted ? Told{} : told_of(noted.error());
    });
  }

  void load() {
    const std::string head = one_of(heads_);
    each([&](Place& place) -> Told {
      const std::string into = temp_.path("loaded");
      archive::ExtractOptions options;
      options.roots = {{"torch", into}};
      options.threads = 1;
      const auto loaded = archive::extract(place.store(), head, options);
      Told told =
          loaded ? Told{"fine", "", std::to_string(loaded->files), {}} : told_of(loaded.error());
      if (fs::exists(into)) told.tree = archive::test::read_tree(into);
      RC_ASSERT(loaded.has_value() || told.tree.empty());
      fs::remove_all(into);
      return told;
    });
  }

  void verify() {
    const std::string head = one_of(heads_);
    each([&](Place& place) -> Told {
      const auto whole = archive::verify(place.store(), head);
      return whole ? Told{"fine", "", std::to_string(whole->compressed_bytes), {}}
                   : told_of(whole.error());
    });
  }

  void damage() {
    const std::string digest = one_of(blobs_);
    const int how = number(0, single_blobs_ ? 3 : 2);
    damaged_.insert(digest);
    const int at = number(0, 1000);
    each([&](Place& place) -> Told {
      auto content = place.take(digest);
      if (!content) return {"missing", "", "", {}};
      const size_t byte = content->size() * static_cast<size_t>(at) / 1000;
      if (how == 0) {
        content->resize(byte);
      } else if (how == 1) {
        *content += "more";
      } else if (byte < content->size()) {
        (*content)[byte] = static_cast<char>((*content)[byte] ^ 1);
      }
      place.put(digest, *content);
      return {};
    });
  }

  void lose() {
    const std::string digest = one_of(blobs_);
    each([&](Place& place) -> Told {
      return {place.take(digest) ? "taken" : "missing", "", "", {}};
    });
  }

  void sweep() {
    std::vector<std::string> doomed;
    for (int i = number(1, 4); i > 0; --i)
      doomed.push_back(one_of(single_blobs_ ? blobs_ : heads_));
    // A registry gets no DELETE for a manifest that is no longer our archive.
    if (!single_blobs_)
      std::erase_if(doomed, [&](const auto& one) { return damaged_.contains(one); });
    const uint64_t collected = single_blobs_ ? 0 : unnamed_after(doomed);
    if (number(0, 5) == 0) doomed.emplace_back("no digest");
    each([&](Place& place) -> Told {
      const auto counts = place.upkeep().remove(doomed);
      if (!counts) return told_of(counts.error());
      RC_ASSERT(counts->failures.empty());
      // A registry also frees what its collection finds that no manifest names any more.
      const uint64_t later = place.has_single_blobs() ? 0 : collected;
      RC_ASSERT(counts->freed_bytes >= later);
      return {"fine",
              "",
              std::to_string(counts->removed) + " " + std::to_string(counts->missing) + " " +
                  std::to_string(counts->freed_bytes - later),
              {}};
    });
  }

  // How many bytes of blobs no archive names any more once these are deleted, going by the first
  // place, a volume or memory. Unreadable manifests name nothing.
  uint64_t unnamed_after(const std::vector<std::string>& doomed) {
    std::map<std::string, uint64_t> unnamed;
    std::set<std::string> named;
    for (const std::string& head : std::set<std::string>(heads_.begin(), heads_.end())) {
      const auto manifest = archive::read_manifest(places_.front()->store(), head);
      if (!manifest) continue;
      std::vector<archive::Descriptor> blobs = manifest->layers;
      blobs.push_back(manifest->config);
      const bool goes = std::find(doomed.begin(), doomed.end(), head) != doomed.end();
      for (const archive::Descriptor& blob : blobs) {
        if (goes) unnamed[blob.digest] = blob.size;
        if (!goes) named.insert(blob.digest);
      }
    }
    uint64_t bytes = 0;
    for (const auto& [digest, size] : unnamed) bytes += named.contains(digest) ? 0 : size;
    return bytes;
  }

  archive::test::TempDir temp_;
  std::vector<std::unique_ptr<Place>> places_;
  bool single_blobs_ = true;
  std::vector<std::string> heads_, blobs_;  // all that were ever made
  std::set<std::string> damaged_;           // of these, at some time
};

RC_GTEST_PROP(StoreProperties, EveryHistoryWithoutSingleBlobsGoesTheSameInARegistry, ()) {
  History history(kPlainKinds);
  for (int steps = number(1, 25); steps > 0; --steps) history.step();
  history.expect_same_contents();
}

// Manifests carry what is small.
RC_GTEST_PROP(StoreProperties, EveryHistoryGoesTheSameWhereManifestsCarry, ()) {
  History history(kCarryingKinds);
  for (int steps = number(1, 25); steps > 0; --steps) history.step();
  history.expect_same_contents();
}

RC_GTEST_PROP(StoreProperties, EveryHistoryGoesTheSameOnEachKind, ()) {
  History history(kKindsWithSingleBlobs);
  for (int steps = number(1, 25); steps > 0; --steps) {
    history.step();
    history.expect_same_contents();
  }
}

}  // namespace
}  // namespace compilecache::store::test
