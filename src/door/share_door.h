/* The door to a share for programs that are not heddle's: libheddle_share.so, called from C or by
 * anything that can call C. python/heddle_share.py opens it for PyTorch scripts.
 *
 *   heddle_share_seat* seat = heddle_share_open("lab");
 *   if (seat == NULL || heddle_share_join(seat, "a", rank, 2, device, 0, NULL) != 0)
 *     puts(heddle_share_error());
 *   heddle_share_begin_turn(seat);                // waits for the device; update, forward…
 *   int64_t place = heddle_share_post(seat);      // at the first gradients: a place in line
 *   heddle_share_end_turn(seat);                  // …backward is over: the device is another's
 *   heddle_share_await_network(seat, place);      // the network is free: all-reduce
 *   heddle_share_leave_network(seat, place);
 *   heddle_share_close(seat);
 *
 * All functions that can fail return -1 (or NULL) and leave a text for the calling thread. Those of
 * the network may be called from another thread than the others. In a forked child nothing happens.
 */
#ifndef HEDDLE_DOOR_SHARE_DOOR_H_
#define HEDDLE_DOOR_SHARE_DOOR_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct heddle_share_seat heddle_share_seat;

/* Seconds. */
typedef struct heddle_share_patience {
  double lease; /* a turn that lasts longer, or its messages once they are first in line, is taken
                   for hung, and the job struck */
  double rest_after; /* without work and messages: turns pass until the job asks again */
  double start;      /* until all ranks of the job have come */
} heddle_share_patience;

/* The share of that name on this host, made if nobody is there. */
heddle_share_seat* heddle_share_open(const char* share);

/* Takes the seat of a rank. The job takes part once all its ranks have come. `patience` may be
 * NULL.
 */
int heddle_share_join(heddle_share_seat* seat, const char* job, int32_t rank, int32_t ranks,
                      int32_t device, int32_t node, const heddle_share_patience* patience);

/* Waits for the device; returns at once if it is held. */
int heddle_share_begin_turn(heddle_share_seat* seat);
/* Keeps the device without working: others get it if that lasts. begin_turn goes on. */
int heddle_share_pause(heddle_share_seat* seat);
/* The number of the turn under way in the order that all devices follow, or -1. */
int64_t heddle_share_turn(const heddle_share_seat* seat);
/* A place in line for the network: the first time since the last end of a turn. Returns it. */
int64_t heddle_share_post(heddle_share_seat* seat);
/* Gives the device back, if it is held. */
int heddle_share_end_turn(heddle_share_seat* seat);

/* Waits until that place is first in line. */
int heddle_share_await_network(heddle_share_seat* seat, int64_t place);
int heddle_share_leave_network(heddle_share_seat* seat, int64_t place);

/* -1 if the job was struck from the share; the text says why. Looks after its processes now. */
int heddle_share_check(heddle_share_seat* seat);
/* Strikes the own job: this rank cannot go on. */
int heddle_share_fail(heddle_share_seat* seat, const char* why);
/* The rank is done. The job has left when all its ranks have. */
int heddle_share_leave(heddle_share_seat* seat);
/* Leaves, if that has not been done, and forgets the seat. */
void heddle_share_close(heddle_share_seat* seat);

/* How many jobs take part now. */
int32_t heddle_share_jobs(heddle_share_seat* seat);
/* Nanoseconds of the clock that all processes of the share see. */
int64_t heddle_share_clock(void);

/* What went wrong last in this thread. */
const char* heddle_share_error(void);

#ifdef __cplusplus
}
#endif

#endif /* HEDDLE_DOOR_SHARE_DOOR_H_ */
