"""The 33 sub-steps of a control step in one compiled call, with the GIL released.

The compiled code calls Bullet's C functions by address (see ``c_api``) and shares its arithmetic with the Python loop,
so both agree bit for bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.compilation import compiled
from a2perf.domains.quadruped_locomotion.c_api import CONTACT_SIZE, LINK_STATE_SIZE, TORQUE_MODE, addresses
from a2perf.domains.quadruped_locomotion.native_calls import (
    call_int,
    call_pointer,
    load_double,
    load_int,
    load_pointer,
)
from a2perf.domains.quadruped_locomotion.physics_loop import Actuation, pd_torques
from a2perf.domains.quadruped_locomotion.robot import FOOT_LINKS, SUBSTEPS, FloatArray, IntArray
from a2perf.domains.quadruped_locomotion.sensors import push_joints, write_base
from a2perf.domains.quadruped_locomotion.task import OUTCOME_TOUCH, ImitationTask, after_physics, before_physics

# Positions in the table of addresses, as ``c_api.COMPILED_CALLS`` orders them.
_SUBMIT, _CONTROL, _TORQUE, _STEP, _REQUEST, _STATE, _LINK, _CONTACTS, _BODY_A, _BODY_B, _GET_CONTACTS = range(11)
_FIRST_Q = 7  # seven numbers of the base come before the joints
# Six velocities of the base come first; Bullet indexes torques in the same way.
_FIRST_U = 6


class Handles(NamedTuple):
    """What the compiled code needs of one native physics client.

    Attributes:
        calls: addresses of the C functions, shape (11,).
        counts: memory for three C ints, shape (4,).
        pointers: memory for four C pointers, shape (4,).
        contact_info: memory for a count and a pointer, shape (2,).
        orientation: of the base, overwritten, shape (4,).
        angular: velocity of the base, overwritten, shape (3,).
        feet: links counted as feet, shape (8,).
    """

    calls: IntArray
    client: int
    robot: int
    ground: int
    counts: NDArray[np.int32]
    pointers: IntArray
    link_state: FloatArray
    contact_info: IntArray
    orientation: FloatArray
    angular: FloatArray
    feet: IntArray


def new_handles(client: int, robot: int, ground: int) -> Handles:
    """Returns the handles of a physics client; its bodies must be loaded."""
    return Handles(
        calls=addresses(),
        client=client,
        robot=robot,
        ground=ground,
        counts=np.zeros(4, dtype=np.int32),
        pointers=np.zeros(4, dtype=np.int64),
        link_state=np.zeros(LINK_STATE_SIZE // 8),
        contact_info=np.zeros(2, dtype=np.int64),
        orientation=np.zeros(4),
        angular=np.zeros(3),
        feet=np.array(FOOT_LINKS, dtype=np.int64),
    )


@compiled
def _submit(handles: Handles, command: int) -> int:
    status: int = call_pointer(handles.calls[_SUBMIT], (handles.client, command))
    return status


@compiled
def _request_state(handles: Handles) -> int:
    """Requests the robot's state; the addresses of q and u are in ``handles.pointers[1:3]`` afterwards.

    They point into memory of the client and are valid until its next command only.
    """
    command = call_pointer(handles.calls[_REQUEST], (handles.client, np.int32(handles.robot)))
    status = _submit(handles, command)
    counts, pointers = handles.counts.ctypes.data, handles.pointers.ctypes.data
    # Numba types array addresses as unsigned, for which native_calls has no C type.
    call_int(
        handles.calls[_STATE],
        (
            status,
            np.int64(counts),
            np.int64(counts + 4),
            np.int64(counts + 8),
            np.int64(pointers),
            np.int64(pointers + 8),
            np.int64(pointers + 16),
            np.int64(pointers + 24),
        ),
    )
    return status


@compiled
def measure(handles: Handles, actuation: Actuation) -> None:
    """Reads joints and base and adds a measurement to the history."""
    _request_state(handles)
    q, u = handles.pointers[1], handles.pointers[2]
    for motor in range(12):
        actuation.joints[0, motor] = load_double(q, _FIRST_Q + motor)
        actuation.joints[1, motor] = load_double(u, _FIRST_U + motor)
    for axis in range(4):
        handles.orientation[axis] = load_double(q, 3 + axis)
    for axis in range(3):
        handles.angular[axis] = load_double(u, 3 + axis)
    # push_joints opens the entry that write_base completes; the other order would overwrite the entry before.
    push_joints(actuation.history, actuation.joints[0])
    write_base(actuation.history, handles.orientation, handles.angular)


@compiled
def control_step(handles: Handles, actuation: Actuation, latency: float) -> None:
    """Runs the 33 sub-steps towards ``actuation.commands``, adding a measurement after each."""
    for substep in range(SUBSTEPS):
        pd_torques(actuation, latency, (substep + 1) / SUBSTEPS)
        command = call_pointer(
            handles.calls[_CONTROL], (handles.client, np.int32(handles.robot), np.int32(TORQUE_MODE))
        )
        for motor in range(12):
            call_int(handles.calls[_TORQUE], (command, np.int32(_FIRST_U + motor), actuation.torques[motor]))
        _submit(handles, command)
        _submit(handles, call_pointer(handles.calls[_STEP], (handles.client,)))
        # Every sub-step measures the base too: the request that reads the joints brings it at no further cost.
        measure(handles, actuation)


@compiled
def read_state(handles: Handles, state: FloatArray, feet: FloatArray) -> None:
    """Writes the robot's state (37) and the centres of mass of its foot links (8, 3) as Bullet has them cached."""
    status = _request_state(handles)
    q, u = handles.pointers[1], handles.pointers[2]
    for number in range(7):
        state[number] = load_double(q, number)
    for number in range(6):
        state[7 + number] = load_double(u, number)
    for motor in range(12):
        state[13 + motor] = load_double(q, _FIRST_Q + motor)
        state[25 + motor] = load_double(u, _FIRST_U + motor)
    # status is valid until the next command only, so nothing is submitted between here and the last link.
    memory = np.int64(handles.link_state.ctypes.data)
    for row in range(handles.feet.shape[0]):
        call_int(handles.calls[_LINK], (handles.client, status, np.int32(handles.feet[row]), memory))
        for axis in range(3):
            feet[row, axis] = handles.link_state[axis]


@compiled
def touches_ground(handles: Handles) -> bool:
    """Whether a link that is not a foot link is in Bullet's list of contacts with the ground."""
    command = call_pointer(handles.calls[_CONTACTS], (handles.client,))
    call_int(handles.calls[_BODY_A], (command, np.int32(handles.robot)))
    call_int(handles.calls[_BODY_B], (command, np.int32(handles.ground)))
    _submit(handles, command)
    memory = np.int64(handles.contact_info.ctypes.data)
    call_int(handles.calls[_GET_CONTACTS], (handles.client, memory))
    count = load_int(memory, 0)
    points = load_pointer(memory + 8)
    for number in range(count):
        point = points + number * CONTACT_SIZE
        link = load_int(point, 3) if load_int(point, 1) == handles.robot else load_int(point, 4)
        foot = False
        for row in range(handles.feet.shape[0]):
            if link == handles.feet[row]:
                foot = True
        if not foot:
            return True
    return False


@compiled
def run(handles: Handles, task: ImitationTask, latency: float, steps: int, warm_up: bool) -> None:
    """Runs a whole control step of the task; see ``backends.PhysicsBackend.run``."""
    before_physics(task, latency, steps)
    control_step(handles, task.actuation, latency)
    read_state(handles, task.state, task.feet)
    after_physics(task, latency, steps, warm_up)
    task.outcome[OUTCOME_TOUCH] = 1.0 if touches_ground(handles) else 0.0
