// What the fuzz programs share: seeds, mutation, time, and the input that ended one.
//
//   PROGRAM [--seconds N] [--seed S] [--generate] CORPUS    mutates the files of the folder
//   PROGRAM FILE...                                         runs these inputs once
//
// Without --seed SK_TEST_SEED counts, else it is a fresh one.
// --generate writes the seeds into CORPUS. An input that kills the program lies in ./crash-input
// afterwards. The targets have libFuzzer's signature, so that it can drive them as well.
#ifndef SK_TESTS_FUZZ_DRIVER_H_
#define SK_TESTS_FUZZ_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// The target: takes any bytes, aborts when something does not hold.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace sk::fuzz {

// Good inputs, made by the target's own code.
std::vector<std::string> seeds();
// Words that are worth inserting.
std::vector<std::string> words();

// Ends the program with a sentence, and with the input kept, unless `holds`.
void require(bool holds, const char* what);

}  // namespace sk::fuzz

#endif  // SK_TESTS_FUZZ_DRIVER_H_
