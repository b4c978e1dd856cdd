/* What a statement cost, from EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON). */
#ifndef BELFRY_TESTS_PLAN_COST_H
#define BELFRY_TESTS_PLAN_COST_H

#include "support/harness.h"

struct plan_cost {
    int64_t rows_max; /* the most that one node read: actual rows + rows removed, over all its loops */
    int64_t blocks;   /* shared, hit + read, of the whole */
    int64_t rows;     /* what the node that reads the relation read; of several, the one that read most */
    char scan[64];    /* that node */
    char index[64];   /* its index */
};

/* Explains one execution of a prepared statement, on the harness' own connection. */
struct plan_cost plan_explain(struct world *w, const char *execute, const char *relation);

#endif
