/*
 * slow_names.c
 *		To be preloaded into a server: names that take long to be resolved.
 *
 * The file that SLOW_NAMES names gets a line when getaddrinfo() begins with a
 * name of a domain below, and one when it ends.  The domains:
 *	slow.invalid	takes 5 s, then there is no such name
 *	late.invalid	takes half a second, then is 127.0.0.2 and 127.0.0.1
 *	later.invalid	takes half a second, then there is no such name
 *	fast.invalid	is 127.0.0.2 and 127.0.0.1 at once
 *	broken.invalid	fails with an error of the system
 * While there is a file of that name and ".alone", no thread can be started.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

typedef int (*Resolve) (const char *, const char *, const struct addrinfo *,
						struct addrinfo **);

static void
say(const char *word, const char *name)
{
	const char *path = getenv("SLOW_NAMES");
	int			fd = path == NULL ? -1 :
		open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);

	if (fd < 0)
		return;
	dprintf(fd, "%s %s\n", word, name);
	close(fd);
}

static bool
is_in(const char *name, const char *domain)
{
	size_t		length = strlen(name);
	size_t		of_domain = strlen(domain);

	return length > of_domain &&
		strcmp(name + length - of_domain, domain) == 0;
}

/*
 * 127.0.0.2 and 127.0.0.1, made by libc so that freeaddrinfo() may free them.
 */
static int
local_addresses(Resolve real, const char *service,
				const struct addrinfo *hints, struct addrinfo **found)
{
	struct addrinfo numeric = {.ai_flags = AI_NUMERICHOST,
		.ai_socktype = hints != NULL ? hints->ai_socktype : 0};
	int			failure = real("127.0.0.2", service, &numeric, found);

	if (failure != 0)
		return failure;
	return real("127.0.0.1", service, &numeric, &(*found)->ai_next);
}

/*
 * What the server calls.
 */
int
getaddrinfo(const char *name, const char *service,
			const struct addrinfo *hints, struct addrinfo **found)
{
	Resolve		real = (Resolve) dlsym(RTLD_NEXT, "getaddrinfo");
	bool		slow;
	bool		late;
	int			failure = EAI_NONAME;

	if (name == NULL || !is_in(name, ".invalid") ||
		(hints != NULL && (hints->ai_flags & AI_NUMERICHOST) != 0))
		return real(name, service, hints, found);
	slow = is_in(name, ".slow.invalid");
	late = is_in(name, ".late.invalid");
	say("begins", name);
	if (slow)
		sleep(5);
	if (late || is_in(name, ".later.invalid"))
		usleep(500000);
	if (late || is_in(name, ".fast.invalid"))
		failure = local_addresses(real, service, hints, found);
	else if (is_in(name, ".broken.invalid"))
		failure = EAI_SYSTEM;
	say("ends", name);
	if (failure == EAI_SYSTEM)
		errno = EMFILE;
	return failure;
}

int
pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
			   void *(*run) (void *), void *arg)
{
	static __typeof__(&pthread_create) real;
	const char *path = getenv("SLOW_NAMES");
	char		alone[4096];

	if (real == NULL)
		real = (__typeof__(real)) dlsym(RTLD_NEXT, "pthread_create");
	snprintf(alone, sizeof(alone), "%s.alone", path != NULL ? path : "");
	if (access(alone, F_OK) == 0)
		return EAGAIN;
	return real(thread, attributes, run, arg);
}
