/* What source_check.c and source_indexes.c share: a declaration while it is held against the catalog. */
#ifndef BELFRY_STORE_SOURCE_PRIVATE_H
#define BELFRY_STORE_SOURCE_PRIVATE_H

#include "store/source_check.h"

struct source_checking {
    struct db *db;
    const struct source_declaration *declared;
    struct arena *arena;
    struct source *made;
    int64_t relation; /* its oid */
    bool partitioned;
    bool stamped;            /* by belfry_stamp */
    const char *xid_stamped; /* the column that it sets too; NULL: none */
    const char *me;          /* the role, as SQL */
};

/* Always ST_FATAL with EXIT_USAGE. key NULL: the feed as a whole. */
MUST_USE enum status source_refuse(const struct source_checking *checking, const char *key,
                                   struct fault *fault, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The unique index on id, and the one that serves the pages. After the columns were found good. */
MUST_USE enum status source_check_indexes(const struct source_checking *checking, struct fault *fault);

#endif
