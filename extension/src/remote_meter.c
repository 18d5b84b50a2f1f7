/*
 * remote_meter.c
 *		How much a server has sent, and whether it is too much.
 *
 * libpq has no limit of its own.  Rows are counted when they are complete; but
 * libpq holds a message until all of it has arrived, so what arrives and what
 * libpq allocates are counted, too.
 */
#include "remote_meter.h"

#include <sys/ioctl.h>
#ifdef __GLIBC__
#include <malloc.h>
#if __GLIBC_PREREQ(2, 33)
#define HEAP_CAN_BE_ASKED
#endif
#endif

/*
 * The limits of one answer.  Most questions have an answer of one row of less
 * than a kilobyte; those of people may have any.
 */
#define MOST_ROWS		1000
#define MOST_BYTES		((Size) 1024 * 1024)

/*
 * What libpq may allocate to parse a message of that size: its buffer, which
 * grows by doubling, and the row.  SCRAM takes a quarter of a megabyte, once.
 */
#define MOST_TO_PARSE	(4 * MOST_BYTES)

static void count_read(RemoteMeter *meter, PGconn *conn, int before);
static void count_parsed(RemoteMeter *meter, Size before);
static int	bytes_waiting(PGconn *conn);
static Size heap_in_use(void);

/*
 * PQconnectPoll(), counted.  It parses, too: a server may send notices and
 * settings before it is ready.  Nothing is parsed while TLS begins, which is
 * when libpq loads root certificates: 1.3 MB for Debian's, any amount for
 * others.
 */
PostgresPollingStatusType
meter_connect(RemoteMeter *meter, PGconn *conn)
{
	bool		parses = PQstatus(conn) != CONNECTION_SSL_STARTUP;
	int			waiting = bytes_waiting(conn);
	Size		heap = heap_in_use();
	PostgresPollingStatusType status = PQconnectPoll(conn);

	count_read(meter, conn, waiting);
	if (parses)
		count_parsed(meter, heap);
	return status;
}

/*
 * PQconsumeInput(), counted; false on an error.
 */
bool
meter_consume(RemoteMeter *meter, PGconn *conn)
{
	int			before = bytes_waiting(conn);
	bool		fine = PQconsumeInput(conn) != 0;

	count_read(meter, conn, before);
	return fine;
}

/*
 * Lets libpq parse what has arrived; true if there is a result.
 */
bool
meter_parse(RemoteMeter *meter, PGconn *conn)
{
	Size		before = heap_in_use();
	bool		has_result = !PQisBusy(conn);

	count_parsed(meter, before);
	return has_result;
}

/*
 * Counts a row of that many bytes.
 */
void
meter_row(RemoteMeter *meter, Size bytes)
{
	meter->rows++;
	meter->bytes += bytes;
}

/*
 * An error if the server has sent too many rows, too many bytes of rows, or
 * too many bytes of anything; else NULL.
 */
const char *
meter_error(const RemoteMeter *meter)
{
	if (meter->rows <= MOST_ROWS && meter->bytes <= MOST_BYTES &&
		meter->arrived <= MOST_BYTES)
		return NULL;
	return psprintf("answer exceeds %d rows or %zu bytes", MOST_ROWS,
					MOST_BYTES);
}

/*
 * Counts what libpq has read, given how much was waiting before: a lower
 * bound, since more may have arrived meanwhile.
 */
static void
count_read(RemoteMeter *meter, PGconn *conn, int before)
{
	meter->arrived += Max(before - bytes_waiting(conn), 0);
}

/*
 * Counts what libpq has parsed, given how much of the heap was in use before.
 * libpq allocates a buffer for a whole message when it has the first bytes, so
 * the growth of the heap reveals a message that is too long before it is read.
 */
static void
count_parsed(RemoteMeter *meter, Size before)
{
	if (heap_in_use() > before + MOST_TO_PARSE)
		meter->arrived += MOST_TO_PARSE;
}

/* Bytes that have arrived but are not read; with TLS, encrypted ones. */
static int
bytes_waiting(PGconn *conn)
{
	int			waiting = 0;

	(void) ioctl(PQsocket(conn), FIONREAD, &waiting);
	return waiting;
}

/* Bytes allocated by malloc(), or 0 where this is not known. */
static Size
heap_in_use(void)
{
#ifdef HEAP_CAN_BE_ASKED
	struct mallinfo2 heap = mallinfo2();

	return heap.uordblks + heap.hblkhd;
#else
	return 0;
#endif
}
