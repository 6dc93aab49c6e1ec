#include "archive/write/packer.hpp"

#include <algorithm>
#include <cstring>

#include "base/sha256.hpp"
#include "base/sha256_pair.hpp"

namespace compilecache::archive {
namespace {

// Smaller files hardly compress to less than a two thousandth, and there may be very many of them.
constexpr uint64_t kSmallestToBlame = 64ULL << 10;

}  // namespace

size_t Packer::Packed::add(const std::vector<FileEntry>& files, size_t file) {
  const FileEntry& added = files[file];
  uint64_t key = 0;
  std::memcpy(&key, added.sha256.data(), sizeof(key));
  for (auto [at, end] = known_.equal_range(key); at != end; ++at) {
    const FileEntry& other = files[at->second];
    if (other.sha256 == added.sha256 && other.executable == added.executable) return at->second;
  }
  known_.emplace(key, file);
  return file;
}

void Packer::forget() {
  changed_.reset();
  packed_.clear();
  placed_.clear();
  placed_sources_.clear();
}

Status Packer::pack(LayerWriter& layer, const std::vector<Source>& sources, Plan& plan) {
  return pack_all({layer, sources, plan});
}

std::vector<size_t> Packer::beyond_ratio(const LayerWriter& layer, uint64_t max_ratio) const {
  std::vector<size_t> sources;
  for (const size_t i : archive::beyond_ratio(layer.frames(), placed_, max_ratio))
    sources.push_back(placed_sources_[i]);
  return sources;
}

// Two files that are read as a whole are hashed together, which takes little longer than one.
Status Packer::pack_all(const Work& work) {
  const Plan& plan = work.plan;
  const auto whole = [&](size_t i) {
    return i < plan.packs.size() && plan.files[plan.packs[i].file].size <= kWholeBytes;
  };
  for (size_t i = 0; i < plan.packs.size();) {
    if (!whole(i)) {
      if (auto packed = pack_large(work, plan.packs[i]); !packed) return packed;
      ++i;
      continue;
    }
    const size_t count = whole(i + 1) ? 2 : 1;
    std::array<std::span<uint8_t>, 2> bytes;
    for (size_t k = 0; k < count; ++k) {
      if (!whole_[k]) whole_[k] = make_large_bytes(kWholeBytes);
      bytes[k] = {whole_[k].get(), plan.files[plan.packs[i + k].file].size};
      if (auto read = read_whole(work, plan.packs[i + k], bytes[k]); !read) return read;
    }
    const auto hashes = sha256_pair(bytes[0], bytes[1]);
    for (size_t k = 0; k < count; ++k) {
      auto packed = pack_whole(work, plan.packs[i + k], bytes[k], hashes[k]);
      if (!packed) return packed;
    }
    i += count;
  }
  return {};
}

Status Packer::read_whole(const Work& work, const Plan::Pack& item, std::span<uint8_t> bytes) {
  auto reader = SourceReader::open(work.sources[item.source]);
  if (!reader) return changed(item.source, reader.error());
  if (auto read = reader->read(bytes); !read) return changed(item.source, read.error());
  if (auto same = reader->finish(); !same) return changed(item.source, same.error());
  return {};
}

Status Packer::pack_whole(const Work& work, const Plan::Pack& item, std::span<const uint8_t> bytes,
                          const ContentHash& hash) {
  LayerWriter& layer = work.layer;
  FileEntry& file = work.plan.files[item.file];
  file.sha256 = hash;
  if (file.size > 0) {
    const size_t equal = packed_.add(work.plan.files, item.file);
    if (equal != item.file) {
      file.from = work.plan.files[equal].path;
      if (auto added = layer.add_link(file.path, file.from, file.executable); !added) return added;
      return end_pack(work, item, hash);
    }
  }
  if (auto begun = layer.begin_file(file.path, file.size, file.executable); !begun) return begun;
  note_place(layer, item.source, file.size);
  if (auto added = layer.data(bytes); !added) return added;
  if (auto ended = layer.end_file(); !ended) return ended;
  return end_pack(work, item, hash);
}

// Packs the file while it is read. If it changes meanwhile, the layer is useless.
Status Packer::pack_large(const Work& work, const Plan::Pack& item) {
  LayerWriter& layer = work.layer;
  const FileEntry& file = work.plan.files[item.file];
  auto reader = SourceReader::open(work.sources[item.source]);
  if (!reader) return changed(item.source, reader.error());
  Sha256 hash;
  if (auto begun = layer.begin_file(file.path, file.size, file.executable); !begun) return begun;
  note_place(layer, item.source, file.size);
  for (uint64_t left = file.size; left > 0;) {
    const auto piece = chunk_.first(static_cast<size_t>(std::min<uint64_t>(left, chunk_.size())));
    if (auto read = reader->read(piece); !read) return changed(item.source, read.error());
    hash.update(piece);
    left -= piece.size();
    if (auto added = layer.data(piece); !added) return added;
  }
  if (auto same = reader->finish(); !same) return changed(item.source, same.error());
  if (auto ended = layer.end_file(); !ended) return ended;
  return end_pack(work, item, *parse_content_hash(hash.finish_hex()));
}

Status Packer::end_pack(const Work& work, const Plan::Pack& item, const ContentHash& hash) {
  FileEntry& file = work.plan.files[item.file];
  const Source& source = work.sources[item.source];
  if (source.hash && *source.hash != hash) {
    return changed(item.source, {file.path, LeftOutReason::kBusy,
                                 source.file.local + " changed while it was read"});
  }
  file.sha256 = hash;
  for (const size_t link : item.links) {
    FileEntry& other = work.plan.files[link];
    other.from = file.stored_as();
    if (auto added = work.layer.add_link(other.path, other.from, other.executable); !added)
      return added;
  }
  return {};
}

Status Packer::changed(size_t source, const LeftOut& why) {
  changed_ = Changed{source, why};
  return fail(ErrorCode::kUnavailable, why.path + ": " + why.detail);
}

void Packer::note_place(const LayerWriter& layer, size_t source, uint64_t size) {
  if (size < kSmallestToBlame) return;
  placed_.push_back({layer.plain_bytes(), size});
  placed_sources_.push_back(source);
}

}  // namespace compilecache::archive
