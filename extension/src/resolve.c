/*
 * resolve.c
 *		Resolves host names, many at once, without blocking the backend.
 *
 * getaddrinfo() cannot be interrupted, so it is called in a thread, and the
 * backend polls for the result.  Why threads are sound here, in a process that
 * is otherwise single-threaded:
 *	- a thread runs look_up() and nothing else: getaddrinfo() on memory of
 *	  malloc(), then this file's mutex.  No function and no variable of
 *	  PostgreSQL, so no palloc, no ereport, no latch; errno is its own;
 *	- it is started with all signals blocked, so signal handlers still run
 *	  only in the backend's own thread;
 *	- both threads share only a Lookup, which is changed under the mutex and
 *	  freed by whoever releases it last.  Nothing blocks or raises an error
 *	  while the mutex is held, and no signal handler takes it;
 *	- a thread that is no longer needed is left to end by itself.  It uses no
 *	  file descriptor of the backend, so none can be closed or reused under
 *	  it;
 *	- getaddrinfo() is thread-safe as long as nobody changes LC_CTYPE or adds
 *	  an environment variable.  A backend adds none after it has started: SET
 *	  lc_messages gives a new value to a variable that exists.  LC_CTYPE it
 *	  changes for a moment in CREATE DATABASE and
 *	  pg_import_system_collations(), to look at a locale.  Only a thread that
 *	  an earlier statement left behind can run beside that; it may see the
 *	  other locale, in which ASCII, and so a host name, means the same;
 *	- a process that exits while a thread is in getaddrinfo() skips the exit
 *	  handlers of libraries, which the thread may be using.
 */
#include "resolve.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "storage/ipc.h"

/*
 * Threads of one session, including those that are no longer needed.  There is
 * at most one for each name.
 */
#define MOST_THREADS	64

/* Of each; libc and the modules it loads have their buffers there. */
#define STACK_BYTES		(1024 * 1024)

/* A call of getaddrinfo(). */
typedef struct Lookup
{
	struct Lookup *next;		/* in running */
	int			holders;		/* its thread, and each HostName */
	bool		done;			/* then nothing below changes any more */
	int			failure;		/* what getaddrinfo() returned */
	int			system_error;	/* errno, if that was EAI_SYSTEM */
	struct addrinfo *found;
	char		name[];
} Lookup;

/* Guards the two below, and every Lookup that is not done. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static Lookup *running = NULL;
static int	nrunning = 0;

/* Set when proc_exit() has begun. */
static bool exits = false;
static int	exit_status;

static void begin(HostName *host);
static bool join_running(HostName *host);
static int	count_running(void);
static Lookup *new_lookup(const char *name);
static int	start_thread(Lookup *lookup);
static void *look_up(void *arg);
static void remove_running(Lookup *lookup);
static bool look_whether_done(HostName *host);
static void keep_result(HostName *host);
static char *address_text(const struct addrinfo *found);
static void let_go(Lookup *lookup);
static void prepare_for_exit(void);
static void note_exit(int code, Datum arg);
static void exit_beside_threads(void);

/*
 * Whether this is a name that must be resolved: not an address, the directory
 * or name of a socket, or empty.
 */
bool
resolve_is_name(const char *host)
{
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST};
	struct addrinfo *found;

	if (host[0] == '\0' || host[0] == '/' || host[0] == '@')
		return false;
	if (getaddrinfo(host, NULL, &hints, &found) != 0)
		return true;
	freeaddrinfo(found);
	return false;
}

/*
 * Adds a name to be resolved; equal names are added once.
 */
HostName *
resolve_add(Resolver *resolver, const char *name)
{
	HostName   *host;
	ListCell   *cell;

	foreach(cell, resolver->names)
	{
		host = lfirst(cell);
		if (strcmp(host->name, name) == 0)
			return host;
	}
	host = palloc0(sizeof(HostName));
	host->name = pstrdup(name);
	resolver->names = lappend(resolver->names, host);
	return host;
}

/*
 * Starts as many threads as allowed, and collects results.  True while there
 * are names that are not resolved.
 */
bool
resolve_go_on(Resolver *resolver)
{
	bool		unknown = false;
	ListCell   *cell;

	foreach(cell, resolver->names)
	{
		HostName   *host = lfirst(cell);

		if (!host->known && host->lookup == NULL)
			begin(host);
		if (host->lookup != NULL && look_whether_done(host))
			keep_result(host);
		unknown |= !host->known;
	}
	return unknown;
}

/*
 * Gives up on the names that are not resolved; safe to call twice.
 */
void
resolve_abandon(Resolver *resolver)
{
	ListCell   *cell;

	foreach(cell, resolver->names)
	{
		HostName   *host = lfirst(cell);

		if (host->lookup != NULL)
			let_go(host->lookup);
		host->lookup = NULL;
	}
}

/*
 * Starts to resolve a name, if one more thread is allowed.  If no thread can
 * be started and none is running, the name gets an error.
 */
static void
begin(HostName *host)
{
	Lookup	   *lookup;
	int			failure;

	if (join_running(host) || count_running() >= MOST_THREADS)
		return;
	prepare_for_exit();
	lookup = new_lookup(host->name);
	failure = lookup == NULL ? ENOMEM : start_thread(lookup);
	if (failure == 0)
		host->lookup = lookup;
	else if (count_running() == 0)
	{
		host->known = true;
		host->error = psprintf("could not start a thread: %s",
							   strerror(failure));
	}
}

/*
 * Joins a thread that resolves the same name for a question that gave up.
 */
static bool
join_running(HostName *host)
{
	pthread_mutex_lock(&mutex);
	for (Lookup *lookup = running; lookup != NULL; lookup = lookup->next)
		if (strcmp(lookup->name, host->name) == 0)
		{
			lookup->holders++;
			host->lookup = lookup;
			break;
		}
	pthread_mutex_unlock(&mutex);
	return host->lookup != NULL;
}

static int
count_running(void)
{
	int			count;

	pthread_mutex_lock(&mutex);
	count = nrunning;
	pthread_mutex_unlock(&mutex);
	return count;
}

/* In memory of malloc(); NULL if there is none. */
static Lookup *
new_lookup(const char *name)
{
	size_t		size = strlen(name) + 1;
	Lookup	   *lookup = calloc(1, sizeof(Lookup) + size);

	if (lookup != NULL)
		memcpy(lookup->name, name, size);
	return lookup;
}

/*
 * Starts the thread of a lookup, which the caller and the thread hold then.
 * On failure returns the error number, and the lookup has been freed.
 */
static int
start_thread(Lookup *lookup)
{
	pthread_attr_t attributes;
	pthread_t	thread;
	sigset_t	all;
	sigset_t	before;
	int			failure = pthread_attr_init(&attributes);

	if (failure != 0)
	{
		/* LCOV_EXCL_START: this function of glibc does not fail */
		free(lookup);
		return failure;
		/* LCOV_EXCL_STOP */
	}
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	pthread_mutex_lock(&mutex);
	lookup->holders = 2;
	lookup->next = running;
	running = lookup;
	nrunning++;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	failure = pthread_create(&thread, &attributes, look_up, lookup);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (failure != 0)
		remove_running(lookup);
	pthread_mutex_unlock(&mutex);
	pthread_attr_destroy(&attributes);
	if (failure != 0)
		free(lookup);
	return failure;
}

/*
 * The body of a thread.
 */
static void *
look_up(void *arg)
{
	Lookup	   *lookup = arg;
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *found = NULL;
	int			failure = getaddrinfo(lookup->name, NULL, &hints, &found);
	int			system_error = errno;

	pthread_mutex_lock(&mutex);
	lookup->failure = failure;
	lookup->system_error = system_error;
	lookup->found = failure == 0 ? found : NULL;
	lookup->done = true;
	remove_running(lookup);
	pthread_mutex_unlock(&mutex);
	let_go(lookup);
	return NULL;
}

/* The caller holds the mutex. */
static void
remove_running(Lookup *lookup)
{
	Lookup	  **link = &running;

	while (*link != lookup)
		link = &(*link)->next;
	*link = lookup->next;
	nrunning--;
}

static bool
look_whether_done(HostName *host)
{
	bool		done;

	pthread_mutex_lock(&mutex);
	done = host->lookup->done;
	pthread_mutex_unlock(&mutex);
	return done;
}

/*
 * Copies the result of a thread; an error has the wording of libpq.
 */
static void
keep_result(HostName *host)
{
	Lookup	   *lookup = host->lookup;
	const char *reason = gai_strerror(lookup->failure);

	if (lookup->failure == EAI_SYSTEM)
		reason = strerror(lookup->system_error);
	for (struct addrinfo *found = lookup->found; found != NULL;
		 found = found->ai_next)
	{
		char	   *address = address_text(found);

		if (address != NULL)
			host->addresses = lappend(host->addresses, address);
	}
	if (host->addresses == NIL)
		host->error = psprintf("could not translate host name \"%s\" to "
							   "address: %s", host->name, reason);
	host->known = true;
	host->lookup = NULL;
	let_go(lookup);
}

/* The numeric form of an address, or NULL. */
static char *
address_text(const struct addrinfo *found)
{
	char		text[NI_MAXHOST];

	if (getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof(text),
					NULL, 0, NI_NUMERICHOST) != 0)
		return NULL;			/* LCOV_EXCL_LINE: libc gave it to us */
	return pstrdup(text);
}

/*
 * Releases a lookup, in either thread; the last holder frees it.
 */
static void
let_go(Lookup *lookup)
{
	bool		last;

	pthread_mutex_lock(&mutex);
	last = --lookup->holders == 0;
	pthread_mutex_unlock(&mutex);
	if (!last)
		return;
	if (lookup->found != NULL)
		freeaddrinfo(lookup->found);
	free(lookup);
}

/*
 * Before the first thread starts: makes the process exit safely beside it.
 */
static void
prepare_for_exit(void)
{
	static bool registered = false;

	if (registered)
		return;
	on_proc_exit(note_exit, (Datum) 0);
	(void) atexit(exit_beside_threads);
	registered = true;
}

static void
note_exit(int code, Datum arg)
{
	exits = true;
	exit_status = code;
}

/*
 * proc_exit() calls exit() when all of its own work is done, and exit() runs
 * this before handlers that were registered earlier.
 */
static void
exit_beside_threads(void)
{
	if (exits && count_running() > 0)
		/* LCOV_EXCL_START: exit() would write down that it was reached */
		_exit(exit_status);
	/* LCOV_EXCL_STOP */
}
