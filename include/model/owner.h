/* Who holds a lease or a partition: a random number per process start, never 0. */
#ifndef BELFRY_MODEL_OWNER_H
#define BELFRY_MODEL_OWNER_H

#include <stdint.h>

/* Positive, from getrandom(2). */
int64_t owner_make(void);

#endif
