/* The configuration's lists of keys: "id:path id:path" and "kid:alg:path". */
#ifndef BELFRY_SRC_WIRE_KEY_LIST_H
#define BELFRY_SRC_WIRE_KEY_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/span.h"
#include "base/status.h"
#include "io/crypto.h"

/* Takes the next word (blanks part words); false at the end. */
bool key_list_word(struct span *list, struct span *word);
/* Takes what stands before the next ':' out of word; false when there is none or it is empty. */
bool key_list_part(struct span *word, struct span *part);
/* 1 … bytes_max of [A-Za-z0-9._-], copied with a NUL. */
bool key_list_id(struct span part, size_t bytes_max, char *id);
/* Reads the file; what is wrong with it is said of this field. */
MUST_USE enum status key_list_read(struct span path, const char *field, struct crypto_key *key,
                                   struct fault *fault);
struct key_list_public {
    const char *field;
    enum crypto_kind kind;
};
/* A PEM file; crypto_public_free. */
MUST_USE enum status key_list_read_public(struct span path, const struct key_list_public *wanted,
                                          struct crypto_public **key, struct fault *fault);
/* Always ST_REJECT "config". */
enum status key_list_refuse(struct fault *fault, const char *field, const char *why);

#endif
