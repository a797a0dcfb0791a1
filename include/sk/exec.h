/* Cells on ranks. */
#ifndef SK_EXEC_H_
#define SK_EXEC_H_

#include "sk/base.h"

#endif /* SK_EXEC_H_ */
