#include "archive/write/source_list.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "archive/write/plan.hpp"

namespace compilecache::archive {

SourceList::SourceList(std::vector<SourceFile> files) {
  sources_.reserve(files.size());
  for (SourceFile& file : files) {
    auto source = look_at(std::move(file));
    if (source) {
      sources_.push_back(std::move(*source));
    } else {
      left_out_.push_back(source.error());
    }
  }
  std::stable_sort(sources_.begin(), sources_.end(),
                   [](const Source& a, const Source& b) { return a.file.path < b.file.path; });
  const auto same = [](const Source& a, const Source& b) { return a.file.path == b.file.path; };
  sources_.erase(std::unique(sources_.begin(), sources_.end(), same), sources_.end());
  dropped_.assign(sources_.size(), false);
}

void SourceList::leave_out(size_t index, LeftOut why) {
  dropped_[index] = true;
  left_out_.push_back(std::move(why));
}

void SourceList::hash(size_t index, std::span<uint8_t> chunk) {
  auto hash = hash_content(sources_[index], chunk);
  if (hash) {
    sources_[index].hash = *hash;
  } else {
    leave_out(index, hash.error());
  }
}

Status SourceList::find_equal_files(const Config& parent, std::span<uint8_t> chunk,
                                    const std::function<Status()>& go_on) {
  const Candidates candidates = find_candidates(parent, sources_);
  for (const size_t index : candidates.hash) {
    if (auto fine = go_on(); !fine) return fine;
    hash(index, chunk);
  }
  for (const std::vector<size_t>& group : candidates.same_size) {
    std::map<uint64_t, std::vector<size_t>> alike;
    for (const size_t index : group) {
      auto print = fingerprint(sources_[index]);
      if (print) {
        alike[*print].push_back(index);
      } else {
        leave_out(index, print.error());
      }
    }
    for (const auto& [print, indices] : alike) {
      if (indices.size() < 2) continue;
      for (const size_t index : indices) {
        if (auto fine = go_on(); !fine) return fine;
        hash(index, chunk);
      }
    }
  }
  drop_left_out();
  return {};
}

void SourceList::leave_out_with_unit(size_t index, std::string detail) {
  const SourceFile& file = sources_[index].file;
  leave_out(index, {file.path, LeftOutReason::kTooLarge, std::move(detail)});
  if (file.unit == 0) return;
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (dropped_[i] || sources_[i].file.unit != file.unit) continue;
    leave_out(i, {sources_[i].file.path, LeftOutReason::kIncomplete,
                  sources_[i].file.path + " is of no use without " + file.path});
  }
}

void SourceList::leave_out_units(const std::vector<std::vector<size_t>>& units,
                                 const std::string& detail) {
  for (const std::vector<size_t>& unit : units) {
    LeftOutReason reason = LeftOutReason::kTooMany;
    for (const size_t index : unit) {
      leave_out(index, {sources_[index].file.path, reason, detail});
      reason = LeftOutReason::kIncomplete;
    }
  }
}

void SourceList::leave_out_changed(size_t index, const LeftOut& why) {
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (i == index) {
      leave_out(i, why);
      continue;
    }
    auto now = look_at(sources_[i].file);
    if (now && now->stamp == sources_[i].stamp) continue;
    leave_out(i, now ? LeftOut{sources_[i].file.path, LeftOutReason::kBusy,
                               sources_[i].file.local + " changed"}
                     : now.error());
  }
}

void SourceList::drop_left_out() {
  std::vector<Source> kept;
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (!dropped_[i]) kept.push_back(std::move(sources_[i]));
  }
  sources_ = std::move(kept);
  dropped_.assign(sources_.size(), false);
}

}  // namespace compilecache::archive
