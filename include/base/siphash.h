/* SipHash-2-4 (Aumasson, Bernstein 2012): a 64-bit hash under a secret key. For tables whose keys come from
 * outside: without the key nobody can choose texts that fall into one bucket. Not for signatures. */
#ifndef BELFRY_BASE_SIPHASH_H
#define BELFRY_BASE_SIPHASH_H

#include <stdint.h>

#include "base/span.h"

struct siphash_key {
    uint64_t k0, k1; /* random, once per process or table */
};

uint64_t siphash(const struct siphash_key *key, struct span text);

#endif
