/* belfry-simulator: the push provider of contracts/provider.md and the account service of
 * contracts/preferences.md over real HTTP, in one program with one thread.
 *
 *   belfry-simulator [--listen 127.0.0.1:0] [--record FILE] [--record-full] [--receipt-delay MS]
 *                    [--rate MESSAGES_PER_S] [--access-token TEXT] [--delay MS]
 *
 * The first line on stdout is "listening on 127.0.0.1:PORT". Leaves with 0 on SIGTERM or SIGINT.
 *
 * What it does unasked
 *   POST /--/api/v2/push/send         tickets in request order; a message is "accepted" when it gets an ok
 * ticket POST /--/api/v2/push/getReceipts  receipts --receipt-delay after the send (default 0), for a day;
 * the map is in another order than asked; an id it does not know is absent POST /preferences the users that
 * were scripted; others are left out Refuses with the provider's own error lists: PUSH_TOO_MANY_NOTIFICATIONS
 * (over 100 recipients), PUSH_TOO_MANY_RECEIPTS (over 1,000), VALIDATION_ERROR, PUSH_TOO_MANY_EXPERIENCE_IDS,
 * TOO_MANY_REQUESTS (429 with Retry-After, over --rate a project), UNAUTHORIZED and the OAuth shape
 * (--access-token). A message over 4,096 bytes gets a MessageTooBig ticket. gzip is read, and written when
 * the client asks for it.
 *
 * --record FILE: one JSON line for each accepted message, appended with one write(2) per request BEFORE the
 * reply leaves, so it is the truth even when the reply is lost:
 *   {"at_ms":…,"call":n,"position":p,"token":…,"notification_id":…,"title_bytes":n,"ticket":…}
 * with --record-full also "message": the message (its numbers printed anew), and in the line of position 0
 * "request": the body, byte for byte.
 *
 * Control, all JSON (an unknown member is refused with 400 and its name):
 *   POST /control/script       one rule or an array of rules: {"when":{…},"do":{…}}
 *   POST /control/preferences  {"users":{"u1":{"push":false}}}: merged in; null takes a user out again
 *   POST /control/projects     {"SUBSTRING OF TOKEN":"@owner/app",…}; other tokens belong to "@belfry/app"
 *   POST /control/clock        {"advance_ms":n}: receipts age that much at once
 *   POST /control/tickets      {"count":n}: n more tickets with ok receipts, as if n messages had been
 * accepted POST /control/reset        forgets rules, preferences, projects and counters; keeps tickets and
 * the record GET  /control/stats
 * {"send":{calls,accepted,refused,faults,largest,largest_bytes,gzip,concurrent,
 *                              concurrent_max},"receipts":{…},"preferences":{…},"connections","connections_max",
 *                              "run","tickets"}
 *                              (accepted and largest count messages, ids or users; largest_bytes is unpacked)
 *
 * when (all that are given must hold; {} always holds)
 *   path   "send" (default), "receipts", "preferences"
 *   token  a substring of a token (receipts: of an id; preferences: of a user) in the request
 *   call   the n-th request of that path since the start or the reset, from 1
 *   next   only the next n requests for which the rest holds
 *   reused true: only on a connection that has carried a request before; false: only on a new one
 *
 * do, for the whole request (the first rule in order wins)
 *   status, body, content_type   the answer; body a string as it is, any other JSON as its text
 *   tickets   answers 200 {"data":<this>}, whatever it is
 *   close     "before_reply" (read, then hung up), "reset" (the same with RST), "after_headers", "mid_body"
 *             (half of the ordinary answer, or of body when given)
 *   hang_ms   says nothing for so long, then hangs up
 *   raw       these bytes instead of an HTTP answer, then hangs up
 *   accept    whether the messages were accepted all the same. Default: true for close, hang_ms, raw, tickets
 * and status below 400; false for 400 and above. Accepted messages go to the record and get receipts. do,
 * beside the above or beside the ordinary answer delay_ms  waits before answering     headers
 * {"Name":"value"} added     pad_bytes  blanks after the body do, for single messages (those whose token
 * holds when.token) ticket_error "Code", ticket {raw}, drop_ticket true      not accepted, but for a raw
 * ticket with status ok receipt_error "Code", receipt {raw}, receipt_delay_ms n  what its receipt will be,
 * and when */
#ifndef BELFRY_TESTS_SIMULATOR_H
#define BELFRY_TESTS_SIMULATOR_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

/* Those before SIM_COUNTED_PATHS have counters and rules. */
enum sim_path { SIM_SEND, SIM_RECEIPTS, SIM_PREFERENCES, SIM_COUNTED_PATHS, SIM_CONTROL, SIM_NOWHERE };

enum {
    SIM_BODY_MAX = 8 << 20, /* of a request, packed and unpacked */
    SIM_REPLY_MAX = 16 << 20,
    SIM_RECORD_MAX = 64 << 20, /* of one request */
    SIM_RECIPIENTS_MAX = 100,
    SIM_RECEIPT_IDS_MAX = 1000,
    SIM_USERS_MAX = 200,
    SIM_PAYLOAD_MAX = 4096,
    SIM_RULES_MAX = 1024,
    SIM_TICKETS_MAX = 1 << 22,
    SIM_PROJECTS_MAX = 64,
    SIM_GZIP_FROM = 256
};

enum sim_end {
    END_REPLY,
    END_CLOSE,         /* read, then closed */
    END_RESET,         /* read, then closed with RST */
    END_AFTER_HEADERS, /* status line and headers, then closed */
    END_MID_BODY,      /* and half of the body */
    END_RAW            /* bytes that are no HTTP, then closed */
};

struct sim_reply {
    enum sim_end end;
    unsigned status;
    char content_type[96];
    struct buffer body;
    json_t *headers; /* object of strings, or NULL; owned */
    int64_t delay_ms;
};

struct sim_request {
    struct sim *sim;
    void *connection; /* struct MHD_Connection */
    enum sim_path path;
    char control[32]; /* what follows /control/ */
    bool get;
    bool in_gzip, out_gzip, too_big;
    bool reused; /* the connection carried a request before */
    long call;   /* of its path, from 1 */
    char *authorization;
    struct buffer body; /* unpacked once answered */
    struct sim_reply reply;
    bool answered;  /* the reply is ready, or waits for due_ms */
    int64_t due_ms; /* 0: not suspended */
    struct sim_request *next_waiting;
};

struct sim_rule {
    enum sim_path path;
    char *token; /* NULL: any */
    long call;   /* 0: any */
    long next;   /* -1: any number */
    int reused;  /* -1: either */
    bool whole;  /* its do answers the whole request */
    bool accept;
    json_t *act;
};

struct sim_counters {
    long calls, accepted, refused, faults, largest, largest_bytes, gzip, concurrent, concurrent_max;
};

/* A receipt to be, by the sequence number that its ticket's id carries. */
struct sim_ticket {
    int64_t due_ms, sent_ms;
    json_t *receipt; /* NULL: ok */
};

struct sim_bucket {
    char project[128];
    double messages;
    int64_t at_ms;
};

struct sim_options {
    const char *listen, *record, *access_token;
    long rate, receipt_delay_ms, delay_ms;
    bool record_full;
};

struct sim {
    struct sim_options options;
    struct sim_rule rules[SIM_RULES_MAX];
    size_t rule_count;
    struct sim_counters counters[SIM_COUNTED_PATHS];
    long connections, connections_max;
    json_t *preferences; /* user -> answer */
    json_t *projects;    /* substring -> project */
    struct sim_bucket buckets[SIM_PROJECTS_MAX];
    size_t bucket_count;
    struct sim_ticket *tickets; /* a ring of SIM_TICKETS_MAX, grown as needed */
    size_t ticket_capacity;
    uint64_t ticket_count;
    uint32_t run; /* in every ticket id, so that two runs never share one */
    int64_t clock_offset_ms;
    int record_fd;
    struct sim_request *waiting;
};

/* The rules that hold for one request, worked out once. */
struct sim_match {
    const struct sim_rule *active[SIM_RULES_MAX];
    size_t count;
    const struct sim_rule *whole; /* the first that answers the whole request, or NULL */
};

/* simulator.c: monotonic, without the offset of /control/clock. */
int64_t sim_now_ms(const struct sim *sim);

/* simulator_http.c: an opaque server around one struct sim. */
struct sim_server;
struct sim_server *sim_server_open(struct sim *sim, int *port);
void sim_server_run(struct sim_server *server, int64_t wait_ms);
void sim_server_close(struct sim_server *server);

/* simulator_pack.c */
bool sim_gunzip(struct buffer *body);
bool sim_gzip(struct buffer *body);

/* simulator_reply.c */
void sim_reply_json(struct sim_request *request, unsigned status, const json_t *value);
/* {"errors":[{"code","message","isTransient","details"}]}; details may be NULL and is taken over. */
void sim_reply_error(struct sim_request *request, unsigned status, const char *code, const char *message,
                     json_t *details);
/* Adds (copies of) these to the headers of the answer. */
void sim_reply_headers(struct sim_request *request, json_t *headers);
void sim_reply_text(struct sim_request *request, unsigned status, const char *type, const char *text);

/* simulator_script.c */
void sim_control(struct sim_request *request);
/* names: the tokens, ids or users of the request. Spends the rules' "next". */
void sim_match_rules(struct sim_request *request, const json_t *names, struct sim_match *match);
/* The member of the first active rule that has it and holds for this name; NULL when none. */
json_t *sim_match_find(const struct sim_match *match, const char *name, const char *member);
/* Applies the whole-request action and the modifiers. ordinary: the reply is already filled with what would
 * have been answered. */
void sim_match_apply(struct sim_request *request, const struct sim_match *match);
const char *sim_project_of(const struct sim *sim, const char *token);

/* simulator_push.c, simulator_validate.c, simulator_receipts.c, simulator_accounts.c */
void sim_push_send(struct sim_request *request);
void sim_push_receipts(struct sim_request *request);
void sim_accounts(struct sim_request *request);
/* NULL when right, else the provider's sentence about the first fault (in text). */
const char *sim_validate_message(json_t *message, size_t index, char *text, size_t text_bytes);
bool sim_authorized(struct sim_request *request);
enum { SIM_TICKET_ID_BYTES = 37 };
/* Numbers the ticket, writes its id, remembers its receipt. receipt may be NULL (ok) and is taken over. */
void sim_ticket_add(struct sim *sim, char id[SIM_TICKET_ID_BYTES], json_t *receipt, int64_t delay_ms);

#endif
