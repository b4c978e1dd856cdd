/* 62 random bits: two process starts never share one in practice, and it fits a bigint. */
#include "model/owner.h"

#include <stdlib.h>
#include <sys/random.h>

int64_t owner_make(void)
{
    uint64_t bits = 0;
    if (getrandom(&bits, sizeof bits, 0) != (ssize_t)sizeof bits)
        abort();
    return (int64_t)(bits >> 2) + 1;
}
