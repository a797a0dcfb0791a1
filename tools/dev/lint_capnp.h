// Read by ./dev check ahead of sources that include Cap'n Proto: Debian 12's headers of it leave
// `"text" == kj::StringPtr` to C++20's reversed operators, which g++ 12 finds and clang since 16,
// rightly (P2468), does not. Without this macro they bring the operators of C++17 along; <compare>
// has asked for it before.
#include <compare>
#pragma clang diagnostic ignored "-Wbuiltin-macro-redefined"
#undef __cpp_impl_three_way_comparison
