/* What the reader can be asked, one row a call: its path and method, how its parameters are understood, the
 * one statement it sends, and how the answer is written (contracts/reader-api.md). */
#ifndef BELFRY_FEED_CALLS_H
#define BELFRY_FEED_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"
#include "feed/feeds.h"
#include "feed/keys.h"
#include "feed/parameters.h"
#include "feed/reply.h"
#include "feed/routes.h"
#include "feed/settings.h"
#include "io/crypto.h"
#include "io/db.h"
#include "io/http_server.h"
#include "store/export.h"
#include "store/item.h"
#include "wire/cursor.h"
#include "wire/export_body.h"
#include "wire/jwt.h"

struct download; /* feed/download.h */

/* An export that is asked for, and what of it (feed/exports.h). */
struct exports_ask {
    struct export_query of;
    struct export_range range; /* of its rows and pages */
    enum export_format format; /* of an order: this and the rest */
    struct span key;
    unsigned char hash[CRYPTO_SHA256_BYTES];
    size_t filters_bytes;
    char filters[EXPORT_BODY_BYTES_MAX];
};

/* Of a page of an export: where the walk stands. */
struct exports_walk {
    struct exports_ask ask; /* first: what all of them have */
    bool continues;
    struct cursor cursor;
    int limit;
    int64_t now_us, ttl_us;
};

/* One request from its arrival to its reply. */
struct asked {
    struct asked *next;           /* while it waits */
    struct http_request *request; /* NULL: answered already, for it took too long, or by a download */
    struct download *download;    /* NULL: none; it goes on with this request's statement, range by range */
    const struct call *call;
    struct route route;
    const struct feeds_entry *feed; /* of the route; the built-in one where that names none */
    const struct feeds *feeds;
    const struct feed_settings *settings;
    struct jwt_claims claims;
    union {              /* by the call; spans into this struct and the request */
        struct ask page; /* of a page, and of `read up to` */
        struct item_query item;
        struct exports_ask export;
        struct exports_walk walk;
    };
    int64_t since_ms, sent_ms;
    int tries;         /* sent so often */
    bool small, alone; /* may share a transaction with others that are small; not again: another failed */
};

struct call {
    enum route_kind route;
    enum http_method method; /* HTTP_GET answers HEAD too */
    bool writes;             /* goes to the primary: also what reads what only the primary has */
    const char *allow;       /* the methods of this path, for 405 */
    /* All three NULL: answered without the database, by feed/document.h.
     * ST_REJECT with the code for the client. */
    enum status (*understand)(struct asked *asked, const struct parameters_input *input, struct fault *fault);
    enum status (*send)(struct db *db, const struct asked *asked, uint64_t tag, struct fault *fault);
    /* Writes the answer. ST_REJECT with the code for the client; not_a_member and not_found among them. */
    enum status (*write)(const struct asked *asked, const struct db_result *result, const struct keys *keys,
                         struct answer *answer, struct fault *fault);
};

/* The rows of the table, for who compares them; NULL: past the end. */
const struct call *calls_at(size_t index);

/* ST_REJECT: not_found where there is no such path, method_not_allowed (field: what the path allows). */
MUST_USE enum status calls_find(const struct route *route, enum http_method method, const struct call **call,
                                struct fault *fault);

/* The refusal of who may not read: not_a_member or role_required. Always ST_REJECT. */
MUST_USE enum status calls_refuse_access(enum page_access access, struct fault *fault);

#endif
