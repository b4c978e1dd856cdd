/* The model test while it runs: its clients, and what any of their requests must hold. A failure ends the
 * test by history_fail. Paths are below the history's workspace. */
#ifndef BELFRY_TESTS_READER_MODEL_RUN_H
#define BELFRY_TESTS_READER_MODEL_RUN_H

#include "reader_history.h"

enum { CLIENTS = 3, KEPT = 6, ETAG = 64, CONTENT = 8192 };

/* A cursor, as text and as what it means. */
struct held {
    struct model_cursor means;
    char text[CURSOR_MAX];
};

struct walker {
    bool begun;
    struct model_cursor asks; /* filter and contract of its head page */
    int limit;                /* of the head page that etag and content are of */
    char etag[ETAG], content[CONTENT];
    struct held older, newer; /* where its two walks stand */
    struct model_trail down, up;
    struct held kept[KEPT];
    int kept_count, last[MODEL_LIMIT], last_count;
};

struct figures {
    int64_t steps, pages, rows, empty_more, not_modified, refused, marks, exports;
};

/* An export, and what it must hold for ever. */
struct frozen {
    bool ready;
    char id[HISTORY_ID];
    struct model_row rows[MODEL_ROWS]; /* newest first; session is the row's number */
    int count;
};

struct model_run {
    struct history h;
    void *line; /* the kept connection */
    char other_authorization[TOKEN_MAX + 32];
    struct walker walkers[CLIENTS];
    int who; /* of them, for the trace */
    struct frozen frozen;
    struct figures figures;
};

/* The request as the history's user; of its headers the last goes along. */
void run_send_to(struct model_run *r, const struct world_request *what, struct world_reply *reply);
json_t *run_json_of(struct model_run *r, const struct world_reply *reply);
/* The answer to a request that must be answered. */
json_t *run_answer_to(struct model_run *r, const char *method, const char *path, const char *body);
void run_refused(struct model_run *r, const char *method, const char *path, long status, const char *code);
const char *run_text_of(const json_t *json, const char *name); /* "(none)" where it is no text */
/* A figure and a flag that is false, as counts and marks answer. Ends json. */
void run_check_figure(struct model_run *r, json_t *json, const char *figure, int is, const char *flag);
/* An item as the row stands: edits show. A read_at that was never seen is learnt, and must stay. */
void run_check_item(struct model_run *r, const json_t *item, int row, struct model_row *is);

/* Orders an export and waits until it is ready; later: all of it, by pages and as a stream, and its end. */
void run_export(struct model_run *r);
void run_export_check(struct model_run *r);

#endif
