// Weights that were laid out once for many products.
#ifndef LIBSK_PYTHON_PACKED_H_
#define LIBSK_PYTHON_PACKED_H_

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>

#include "bindings.h"
#include "ends.h"
#include "gil.h"

namespace sk::python {

class Packed {
 public:
  Packed(CommHandle& comm, const Matrix& b, uint32_t flags);
  const sk_packed* get() const { return packed_.get(); }

 private:
  struct Free {
    void operator()(sk_packed* packed) const {
      (void)Ends::now_or_later([packed] {
        // A GPU's driver gives memory back only when everything that runs there is done.
        const GilReleased released;
        return sk_packed_free(packed);
      });
    }
  };
  std::unique_ptr<sk_packed, Free> packed_;
};

}  // namespace sk::python

#endif  // LIBSK_PYTHON_PACKED_H_
