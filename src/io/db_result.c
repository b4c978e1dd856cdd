/* Binary results in, typed values out. A width that is not the asked type's is a programming error. */
#include <assert.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "db_private.h"

static const int64_t EPOCH_2000_US = 946684800000000;

/* struct db_result is never defined: it is libpq's result under another name. */
static const PGresult *pg(const struct db_result *result)
{
    return (const PGresult *)(const void *)result;
}

void db_result_free(struct db_result *result)
{
    PQclear((PGresult *)(void *)result);
}

int db_result_rows(const struct db_result *result)
{
    return PQntuples(pg(result));
}

int64_t db_result_affected(const struct db_result *result)
{
    /* PQcmdTuples only reads, and takes no const. */
    union {
        const struct db_result *in;
        PGresult *out;
    } same = {.in = result};
    return strtoll(PQcmdTuples(same.out), NULL, 10);
}

bool db_result_is_null(const struct db_result *result, int row, int column)
{
    return PQgetisnull(pg(result), row, column) != 0;
}

/* The value's bytes, or NULL for SQL NULL. */
static const char *value(const struct db_result *result, int row, int column, int bytes)
{
    assert(row >= 0 && row < PQntuples(pg(result)) && column >= 0 && column < PQnfields(pg(result)));
    if (PQgetisnull(pg(result), row, column))
        return NULL;
    assert(bytes < 0 || PQgetlength(pg(result), row, column) == bytes);
    return PQgetvalue(pg(result), row, column);
}

int32_t db_result_int4(const struct db_result *result, int row, int column)
{
    const char *at = value(result, row, column, 4);
    uint32_t wire = 0;
    if (at != NULL)
        memcpy(&wire, at, sizeof wire);
    return (int32_t)be32toh(wire);
}

int64_t db_result_int8(const struct db_result *result, int row, int column)
{
    const char *at = value(result, row, column, 8);
    uint64_t wire = 0;
    if (at != NULL)
        memcpy(&wire, at, sizeof wire);
    return (int64_t)be64toh(wire);
}

bool db_result_bool(const struct db_result *result, int row, int column)
{
    const char *at = value(result, row, column, 1);
    return at != NULL && *at != 0;
}

int64_t db_result_time(const struct db_result *result, int row, int column)
{
    if (db_result_is_null(result, row, column))
        return 0;
    int64_t us = db_result_int8(result, row, column);
    return us > INT64_MAX - EPOCH_2000_US ? INT64_MAX : us + EPOCH_2000_US; /* infinity stays it */
}

struct span db_result_text(const struct db_result *result, int row, int column)
{
    const char *at = value(result, row, column, -1);
    return (struct span){at, at == NULL ? 0 : (size_t)PQgetlength(pg(result), row, column)};
}

const unsigned char *db_result_uuid(const struct db_result *result, int row, int column)
{
    return (const unsigned char *)value(result, row, column, DB_UUID_BYTES);
}
