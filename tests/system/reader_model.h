/* What contracts/reader-api.md promises of a walk, for one small feed of one user. Written from the contract
 * and its decisions, not from the code: it shares no type with the product, so that the two can disagree.
 * No I/O: reader_model_test.c does what happens, tells it here, and compares every page. */
#ifndef BELFRY_TESTS_READER_MODEL_H
#define BELFRY_TESTS_READER_MODEL_H

#include <stdbool.h>
#include <stdint.h>

enum { MODEL_ROWS = 640, MODEL_LIMIT = 8, MODEL_INSTANT = -1, MODEL_ANY = -1, MODEL_TEXT = 40 };

/* id MODEL_INSTANT: before every row of at_us. */
struct model_place {
    int64_t at_us, id;
};

enum model_state { MODEL_OPEN, MODEL_THERE, MODEL_GONE };

/* Events are counted: 0 is before the first. */
struct model_row {
    struct model_place at;
    enum model_state state;
    int session;                    /* of OPEN: whose transaction */
    int committed;                  /* the event */
    int changed_read, changed_kind; /* the events that last changed what a filter looks at */
    int category, type, version;
    bool read;
    char read_at[MODEL_TEXT]; /* of read; "": not shown yet */
};

struct model {
    struct model_row rows[MODEL_ROWS];
    int count, event, scan_max;
    int64_t bound_us;
};

struct model_filter {
    bool unread;
    int category, type; /* MODEL_ANY */
};

/* What a cursor means. */
struct model_cursor {
    bool there; /* false: next_cursor is "" */
    struct model_filter filter;
    bool boundary, newer;
    int began; /* the event before the first page */
    struct model_place at;
    struct model_place shown; /* `read up to` it: at or below this */
};

struct model_page {
    int rows[MODEL_LIMIT], count; /* newest first */
    bool has_more;
    struct model_cursor next, prev;
};

int model_compare(struct model_place a, struct model_place b);
bool model_matches(const struct model_row *row, const struct model_filter *filter);

/* The page that must come. head: from is a walk that begins; its place is not looked at. */
void model_read(const struct model *model, const struct model_cursor *from, bool head, int limit,
                struct model_page *page);

/* One walk as its client sees it, from the head downwards, or from the seam upwards. */
struct model_trail {
    bool newer, ended;
    struct model_cursor walk; /* how it began; its place is the seam, for a newer one */
    struct model_place reached;
    unsigned char shown[MODEL_ROWS]; /* so often */
};

void model_trail_begin(struct model_trail *trail, const struct model_cursor *walk, bool newer);
void model_trail_go(struct model_trail *trail, const struct model_page *page);
/* NULL, or the promise that is broken, and at which row. */
const char *model_trail_check(const struct model *model, const struct model_trail *trail, int *at);

/* How many rows `read up to` this cursor marks. */
int model_up_to(struct model *model, const struct model_cursor *cursor);
int model_unread(const struct model *model);

#endif
