#pragma once

#include <memory>

#include "kube/http_transport.hpp"

// Reads a gzip-ed body as plain text, in pieces of at most 64 KiB.

namespace compilecache::kube {

class GzipReader : public BodyReader {
 public:
  // `body` must outlive the reader.
  explicit GzipReader(BodyReader& body);
  ~GzipReader() override;

  // Returns kIo when the data is not gzip or is cut short.
  Result<std::string_view> next() override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace compilecache::kube
