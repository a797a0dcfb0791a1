/* Topology: what the machines look like. */
#ifndef SK_TOPO_H_
#define SK_TOPO_H_

#include "sk/base.h"

#endif /* SK_TOPO_H_ */
