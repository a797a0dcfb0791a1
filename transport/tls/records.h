// The plain bytes of records, one after the other, from parts that lie anywhere.
#ifndef SK_TRANSPORT_TLS_RECORDS_H_
#define SK_TRANSPORT_TLS_RECORDS_H_

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <span>

#include "transport/tls/wire.h"

namespace sk::tls {

// Where the bytes of small parts come together.
using Gathered = std::array<std::byte, kRecordBytes>;

class Parts {
 public:
  explicit Parts(std::span<const iovec> parts) : parts_(parts) {}

  // The next record's bytes, at most kRecordBytes; none: all have been given. Where a part fills
  // the record, or is the last, they are the part's own memory, else copies in `room`: a frame's
  // header travels with what it announces.
  std::span<const std::byte> next(Gathered& room);

 private:
  // Of the first part; parts without bytes are passed over.
  std::span<const std::byte> front();

  std::span<const iovec> parts_;
  size_t given_ = 0;  // Of the first part.
};

}  // namespace sk::tls

#endif  // SK_TRANSPORT_TLS_RECORDS_H_
