/*
 * report.c
 *		Lets findings of undefined behaviour go where those of bad addresses
 *		go: to the files that $FINDINGS begins the names of.
 *
 * gcc's library for them leaves the options to that for addresses when that
 * is there too, but has a place for its reports of its own.
 */
#include <dlfcn.h>
#include <stdlib.h>

__attribute__((constructor))
static void
report_to_files(void)
{
	void	   *library = dlopen("libubsan.so.1", RTLD_LAZY | RTLD_NOLOAD);
	void		(*set_path) (const char *) = NULL;

	if (library != NULL)
		*(void **) &set_path = dlsym(library, "__sanitizer_set_report_path");
	if (set_path == NULL || getenv("FINDINGS") == NULL)
		abort();
	set_path(getenv("FINDINGS"));
}
