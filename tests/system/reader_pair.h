/* A Postgres of the test's own with a hot standby that streams from it, and a reader on each: the standby's
 * reads its pages there (read_uri) and writes to the primary, as deploy/README.md has it. */
#ifndef BELFRY_TESTS_READER_PAIR_H
#define BELFRY_TESTS_READER_PAIR_H

#include "reader_client.h"

struct pair {
    struct client primary, standby; /* of one world, which is the primary's */
    struct world far;               /* the test's own connection to the standby */
    struct child log;               /* the standby server's */
};

void pair_open(struct pair *p, const char *name);
void pair_close(struct pair *p);
/* Until the standby has applied all that the primary has written. */
void pair_wait_replayed(struct pair *p);

#endif
