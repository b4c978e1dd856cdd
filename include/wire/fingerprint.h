/* The query a cursor belongs to, as 8 bytes (contracts/reader-api.md 'Cursor'): first 8 bytes of SHA-256 over
 * feed, workspace, recipient, normalised filters, sort, contract and export id, each with its length. */
#ifndef BELFRY_WIRE_FINGERPRINT_H
#define BELFRY_WIRE_FINGERPRINT_H

#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

struct fingerprint_filter {
    struct span name;
    struct span value; /* normalised by the caller: percent-decoded, one spelling for one meaning */
};

enum { FINGERPRINT_FILTERS_MAX = 32 };

struct fingerprint_query {
    struct span feed;
    struct span workspace; /* empty: the feed has none */
    struct span recipient; /* empty: the feed has none */
    struct span sort;      /* e.g. "created_at,id" */
    struct span contract;  /* "live", "boundary", "snapshot" */
    struct span export_id; /* empty: not an export */
    const struct fingerprint_filter
        *filters;        /* in any order; names are distinct; absent filters are left out */
    size_t filter_count; /* at most FINGERPRINT_FILTERS_MAX (assert) */
};

/* Filters in another order give the same number; everything else that differs gives another. */
uint64_t fingerprint_of(const struct fingerprint_query *query);

#endif
