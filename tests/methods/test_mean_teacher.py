import jax
import jax.numpy as jnp
import numpy as np

from tests.methods.tiny import assert_same, quick_jit, setting
from upsilon_jax.methods.mean_teacher import Teacher, mean_teacher
from upsilon_jax.methods.pi_model import pi_model

C = 5
SHARED = dict(loss_weight=20.0, ramp_steps=10)


def train(method, steps=4):
    """SGD on fresh noise; returns (parameters, final state, what the teacher was)."""
    forward, state, batch = setting(method, num_classes=C, batch_norm=True)
    teachers = []

    @quick_jit
    def step(state, key):
        state = state._replace(method=method.adapt(forward, state, batch, key))
        objective = lambda params: method.loss(forward, params, state, batch, key)
        grads, aux = jax.grad(objective, has_aux=True)(state.params)
        params = jax.tree.map(lambda p, g: p - 0.1 * g, state.params, grads)
        return state._replace(
            step=state.step + 1, params=params, stats=aux.stats, method=aux.method
        )

    for t in range(steps):
        teachers.append(state.method)
        state = step(state, jax.random.key(t))
    return state, teachers


def test_without_memory_it_is_the_pi_model():
    with_teacher, _ = train(mean_teacher(C, decay=0.0, **SHARED))
    without, _ = train(pi_model(C, **SHARED))
    assert_same(with_teacher.params, without.params)
    assert_same(with_teacher.stats, without.stats)


def test_with_memory_it_is_not():
    with_teacher, _ = train(mean_teacher(C, decay=0.9, **SHARED))
    without, _ = train(pi_model(C, **SHARED))
    assert np.any(with_teacher.params["dense"] != without.params["dense"])


def test_full_decay_without_warm_up_freezes_the_teacher():
    state, teachers = train(mean_teacher(C, decay=1.0, warm_up=False, **SHARED))
    assert_same(state.method.params, teachers[0].params)
    assert np.any(state.params["dense"] != state.method.params["dense"])


def test_the_teacher_starts_as_the_student_whatever_came_before():
    method = mean_teacher(C)
    forward, state, batch = setting(method, num_classes=C, step=500)
    trained = jax.tree.map(lambda p: p + 1, state.params)
    first = method.adapt(forward, state._replace(params=trained), batch, None)
    assert_same(first.params, trained)
    assert first.updates == 1


def test_the_teacher_gets_no_gradient_and_holds_its_own_buffers():
    method = mean_teacher(C, ramp_steps=0)
    forward, state, batch = setting(method, num_classes=C)
    key = jax.random.key(0)

    def loss(teacher):
        own = state._replace(method=Teacher(teacher, state.method.updates))
        return method.loss(forward, state.params, own, batch, key)[0]

    moved = jax.tree.map(lambda p: 1.3 * p, state.params)
    grads = quick_jit(jax.grad(loss))(moved)
    assert all(not np.any(g) for g in jax.tree.leaves(grads))
    assert quick_jit(loss)(moved) != quick_jit(loss)(
        state.params
    )  # but its predictions count
    pointers = lambda tree: {x.unsafe_buffer_pointer() for x in jax.tree.leaves(tree)}
    assert not pointers(state.method.params) & pointers(state.params)


def test_updates_count_with_a_named_dtype():
    own = mean_teacher(C).init(None, {"w": jnp.ones(2)}, 3)
    assert own.updates.dtype == jnp.int32 and not own.updates.weak_type
