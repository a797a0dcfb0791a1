// What the library asks of its host, and the decisions of it that tests make wrongly.
#ifndef SK_TESTS_UNIT_TRANSPORT_BOOTSTRAP_SIM_LIBRARY_H_
#define SK_TESTS_UNIT_TRANSPORT_BOOTSTRAP_SIM_LIBRARY_H_

namespace sk::sim {

// Planted in the place of what the code does, by the linker.
enum class Bug {
  kNone,
  kWholeLost,         // The hub does not send the last member what was gathered.
  kPartsSwapped,      // It sends one member the first byte of another's part.
  kErrorUntold,       // It ends without a word.
  kMemberNeverLate,   // A member's time is never up.
  kHubNeverLate,      // The hub's time is never up.
  kProofUnread,       // Any proof is taken for a right one.
  kDescriptorKept,    // A connection that came to nothing is not closed.
  kLeftCountedAlone,  // Who is left is what one rank makes of it.
  kSleepsTooLong,     // A wait has no bound: only news ends it.
  kDeathUnseen,       // The end of a connection is taken for silence.
};

extern Bug planted;

const char* name_of(Bug bug);

}  // namespace sk::sim

#endif  // SK_TESTS_UNIT_TRANSPORT_BOOTSTRAP_SIM_LIBRARY_H_
