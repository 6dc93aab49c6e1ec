#include "kube/gzip_reader.hpp"

#include <zlib.h>

#include <array>

namespace compilecache::kube {
namespace {
constexpr size_t kPiece = 64 << 10;
constexpr int kGzipWindow = 15 + 16;  // 16: a gzip header and trailer, checked
}  // namespace

struct GzipReader::Impl {
  BodyReader& body;
  z_stream stream{};
  bool ready = false;
  bool ended = false;
  std::array<char, kPiece> plain;
};

GzipReader::GzipReader(BodyReader& body) : impl_(new Impl{.body = body}) {
  impl_->ready = inflateInit2(&impl_->stream, kGzipWindow) == Z_OK;
}

GzipReader::~GzipReader() {
  if (impl_->ready) inflateEnd(&impl_->stream);
}

Result<std::string_view> GzipReader::next() {
  Impl& in = *impl_;
  if (!in.ready) return fail(ErrorCode::kInternal, "zlib could not be started");
  in.stream.next_out = reinterpret_cast<Bytef*>(in.plain.data());
  in.stream.avail_out = kPiece;
  while (in.stream.avail_out == kPiece) {
    if (in.stream.avail_in == 0) {
      auto packed = in.body.next();
      if (!packed) return packed;
      if (packed->empty()) {
        if (in.ended) return std::string_view();
        return fail(ErrorCode::kIo, "the gzip-ed answer ended too early");
      }
      in.stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed->data()));
      in.stream.avail_in = static_cast<uInt>(packed->size());
    }
    if (in.ended) return fail(ErrorCode::kIo, "something follows the gzip-ed answer");
    const int result = inflate(&in.stream, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
      in.ended = true;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      return fail(ErrorCode::kIo, "the answer is no gzip, as its header says it is");
    }
  }
  return std::string_view(in.plain.data(), kPiece - in.stream.avail_out);
}

}  // namespace compilecache::kube
