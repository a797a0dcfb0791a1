// The verbs of the `sk` command: one function and one file each. main.cpp holds the table.
#ifndef SK_TOOLS_SK_VERBS_H_
#define SK_TOOLS_SK_VERBS_H_

// argv[0] is the verb. The value is the exit status: 0, 2 for a wrong command line, else as the
// verb's help says.
int run_controller(int argc, char** argv);
int run_doctor(int argc, char** argv);
int run_install(int argc, char** argv);
int run_kernel(int argc, char** argv);
int run_list(int argc, char** argv);
int run_ops(int argc, char** argv);
int run_prefix(int argc, char** argv);
int run_remove(int argc, char** argv);
int run_run(int argc, char** argv);
int run_status(int argc, char** argv);
int run_topo(int argc, char** argv);

#endif  // SK_TOOLS_SK_VERBS_H_
