// What lies between OpenSSL and the stream below: two buffers of ciphertext, of fixed size.
//
// OpenSSL reads and writes here alone, so it never meets a stream that has no room: each record is
// written whole, and read once it is there whole. That is why no call of OpenSSL has to be repeated
// with the arguments that it had before.
#ifndef SK_TRANSPORT_TLS_WIRE_H_
#define SK_TRANSPORT_TLS_WIRE_H_

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <memory>
#include <span>

namespace sk::tls {

inline constexpr size_t kHeaderBytes = 5;
inline constexpr size_t kRecordBytes = size_t{16} << 10;  // Of plain bytes, TLS's limit.
// A record with its header and what encryption may add to it by RFC 8446.
inline constexpr size_t kSealedBytesMax = kHeaderBytes + kRecordBytes + 256;

// What goes out; a ring.
class Outgoing {
 public:
  static constexpr size_t kBytes = size_t{256} << 10;
  // A record, and what may come ahead of it or in its stead: a new key's message, an alert.
  static constexpr size_t kRoomForAnswer = 512;
  static constexpr size_t kRoomForRecord = kSealedBytesMax + 2 * kRoomForAnswer;

  Outgoing() : bytes_(std::make_unique_for_overwrite<std::byte[]>(kBytes)) {}

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  size_t room() const { return kBytes - size_; }
  // All or nothing.
  bool append(std::span<const std::byte> bytes);
  std::span<const iovec> parts(std::array<iovec, 2>& room) const;
  void consume(size_t bytes);

 private:
  std::unique_ptr<std::byte[]> bytes_;  // Pages that were never needed are never touched.
  size_t begin_ = 0;
  size_t size_ = 0;
};

// What has come in.
class Incoming {
 public:
  static constexpr size_t kBytes = size_t{128} << 10;
  static_assert(kBytes > kSealedBytesMax);

  Incoming() : bytes_(std::make_unique_for_overwrite<std::byte[]>(kBytes)) {}

  bool empty() const { return begin_ == end_; }
  size_t size() const { return end_ - begin_; }
  // Where more may be put; never empty while there is no whole record.
  std::span<std::byte> room();
  void filled(size_t bytes) { end_ += bytes; }

  // A record lies here whole, or what can be none.
  bool has_record() const;
  // Moves bytes to `to`, of whole records only; 0: there is none.
  size_t take(std::span<std::byte> to);

 private:
  std::unique_ptr<std::byte[]> bytes_;
  size_t begin_ = 0;
  size_t end_ = 0;
  size_t in_record_ = 0;  // Of the record that is being taken, what is still here.
};

struct Wire {
  Outgoing out;
  Incoming in;
};

}  // namespace sk::tls

#endif  // SK_TRANSPORT_TLS_WIRE_H_
