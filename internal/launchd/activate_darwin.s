#include "textflag.h"

TEXT launch_activate_socket_trampoline<>(SB),NOSPLIT,$0-0
	JMP	libc_launch_activate_socket(SB)
GLOBL	·launch_activate_socket_trampoline_addr(SB), RODATA, $8
DATA	·launch_activate_socket_trampoline_addr(SB)/8, $launch_activate_socket_trampoline<>(SB)

TEXT free_trampoline<>(SB),NOSPLIT,$0-0
	JMP	libc_free(SB)
GLOBL	·free_trampoline_addr(SB), RODATA, $8
DATA	·free_trampoline_addr(SB)/8, $free_trampoline<>(SB)
