#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "archive/fs.hpp"
#include "archive/manifest.hpp"
#include "base/error.hpp"

// An OCI archive: one OCI image layout as a tar file, as `skopeo copy … oci-archive:FILE` writes
// and reads it, and `ctr images import`.
//
//   auto writer = OciArchiveWriter::create("/tmp/llama.tar");
//   writer->add("oci-layout", text);
//   writer->add_blob(store, descriptor);
//   writer->finish();                       // only now is there a file of that name

namespace compilecache::archive {

// As a path: standard input or output.
inline constexpr char kStandardStream[] = "-";

// If it is destroyed before finish(), it leaves no file. Not thread-safe.
class OciArchiveWriter {
 public:
  // kConflict: the file exists already.
  static Result<OciArchiveWriter> create(const std::string& path);
  // Writes to standard output, of which nothing can be taken back: who reads it must check digests.
  static OciArchiveWriter to_standard_output();
  ~OciArchiveWriter();
  OciArchiveWriter(OciArchiveWriter&&) = default;
  OciArchiveWriter& operator=(OciArchiveWriter&&) = delete;

  Status add(const std::string& name, const std::string& content);
  // Copies the blob and checks its digest on the way.
  Status add_blob(const BlobStore& store, const Descriptor& blob);
  Status finish();

 private:
  OciArchiveWriter(std::string path, std::string temporary, Fd fd)
      : path_(std::move(path)), temporary_(std::move(temporary)), fd_(std::move(fd)) {}
  Status begin(const std::string& name, uint64_t size);
  Status pad(uint64_t size);
  // The name of the output, for messages.
  [[nodiscard]] const std::string& target() const {
    return temporary_.empty() ? path_ : temporary_;
  }

  std::string path_, temporary_;  // the latter empty: a stream
  Fd fd_;
};

// The index of an OCI archive whose blobs were put into a store.
struct UnpackedOciArchive {
  // One manifest of the index: its digest and its reference name.
  struct Entry {
    std::string digest, name;
  };
  std::vector<Entry> entries;
};

// Puts every blob of the OCI archive into the store, each checked against its name; nothing refers
// to them yet. kCorrupt: not an OCI archive (files of an image layout in a ustar or PAX tar), or a
// blob does not match its digest; kTooLarge: larger than archives may be. `path` "-": standard
// input.
Result<UnpackedOciArchive> unpack_oci_archive(const std::string& path, BlobStore& store,
                                              const Limits& limits = {});

}  // namespace compilecache::archive
