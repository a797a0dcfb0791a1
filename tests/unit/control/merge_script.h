// Cases of the merge engine as text files: a script, "----", and what a front end gets.
//
//   ranks N                 first line; the cell's ranks are 0 to N - 1
//   tag set|none|spec|host  lines N   bytes N   displays N     the style, before any record
//   RANKS out|err TEXT      RANKS is "*" or a rank set; \n \r \b \e are understood, {rank} replaced
//   RANKS show|result|page TEXT        text/plain            RANKS id ID TEXT     with an id
//   RANKS update ID TEXT    RANKS image TEXT                 RANKS clear|clearwait
//   RANKS figure TEXT       a picture as result
//   RANKS error MS NAME TEXT           RANKS follows MS NAME TEXT    RANKS end
//   RANKS many N TEXT       N lines of stdout, {i} replaced
//   at MS                   the time; what is due is shown
#ifndef SK_TESTS_UNIT_CONTROL_MERGE_SCRIPT_H_
#define SK_TESTS_UNIT_CONTROL_MERGE_SCRIPT_H_

#include <string>

namespace sk::control::testing_support {

// What `script` leads to, as text.
std::string play(const std::string& script);

}  // namespace sk::control::testing_support

#endif  // SK_TESTS_UNIT_CONTROL_MERGE_SCRIPT_H_
