"""What keys do."""

from tests.unit.cli.top.scenes import a_job, a_scene

from gandy.cli.top.look import MAX_FILTER, Action, Change, Quit, TopLook, TopView
from gandy.cli.top.scene import Scene
from gandy.core.model import JobState
from gandy.ids import JobId

SCENE = a_scene(
    a_job(1, JobState.FINISHED, "old", finished=3),
    a_job(2, title="tea", waiting=5, running=1),
    a_job(3, title="toast", waiting=5, failed=1, held=True),
)


def press(look: TopLook, *keys: str, scene: Scene = SCENE) -> list[Action]:
    """What is to be done."""
    actions = []
    for key in keys:
        items = scene.list_items(look)
        action = look.on_key(key, items, scene.find_glance(look, items), scene.can_change)
        if action is not None:
            actions.append(action)
    return actions


def chosen(look: TopLook) -> object:
    items = SCENE.list_items(look)
    return items[look.find_chosen(items)]


def test_jobs_that_have_not_ended_come_first_and_new_ones_before_old() -> None:
    assert SCENE.list_items(TopLook()) == [3, 2, 1]


def test_q_quits_from_everywhere() -> None:
    for view in TopView:
        assert press(TopLook(view), "q") == [Quit()]
    assert press(TopLook(shows_help=True), "q") == [Quit()]


def test_arrows_and_letters_choose_a_row() -> None:
    look = TopLook()
    press(look, "down", "j", "down")
    assert chosen(look) == 1
    press(look, "k")
    assert chosen(look) == 2
    press(look, "end")
    assert chosen(look) == 1
    press(look, "g")
    assert chosen(look) == 3


def test_job_stays_chosen_when_others_come() -> None:
    look = TopLook()
    press(look, "down")
    more = a_scene(*SCENE.picture.jobs.values(), a_job(4, waiting=1))
    items = more.list_items(look)
    assert items[look.find_chosen(items)] == 2


def test_enter_opens_the_chosen_job_and_escape_goes_back() -> None:
    look = TopLook()
    press(look, "down", "enter")
    assert (look.view, look.job) == (TopView.JOB, 2)
    press(look, "escape")
    assert look.view is TopView.OVERVIEW


def test_other_job_is_shown_from_its_beginning() -> None:
    look = TopLook()
    press(look, "enter", "down", "down", "escape", "enter")
    assert look.scroll == 2
    press(look, "escape", "down", "enter")
    assert look.scroll == 0


def test_numbers_and_tab_choose_views() -> None:
    look = TopLook()
    seen = []
    for key in ("4", "tab", "tab", "backtab"):
        press(look, key)
        seen.append(look.view)
    assert seen == [TopView.CALLS, TopView.FOREMEN, TopView.OVERVIEW, TopView.FOREMEN]


def test_view_of_a_job_without_jobs_is_empty() -> None:
    look = TopLook()
    press(look, "2", "down", "h", scene=a_scene())
    assert (look.view, look.job, look.question) == (TopView.JOB, None, None)


def test_filter_is_typed_and_kept() -> None:
    look = TopLook()
    press(look, "/", "T", "x", "backspace", "o", "enter")
    assert (look.filter, look.is_filtering) == ("To", False)
    assert SCENE.list_items(look) == [3]


def test_filter_is_dropped_by_escape() -> None:
    look = TopLook()
    press(look, "/", "x", "escape")
    assert (look.filter, look.is_filtering) == ("", False)
    press(look, "/", "x", "enter", "escape")
    assert (look.filter, look.view) == ("", TopView.OVERVIEW)


def test_filter_is_cleared_and_is_not_endless() -> None:
    look = TopLook()
    press(look, "/", *"x" * 2 * MAX_FILTER)
    assert look.filter == "x" * MAX_FILTER
    press(look, "clear", "left")
    assert look.filter == ""


def test_letters_of_a_filter_do_nothing_else() -> None:
    look = TopLook()
    assert press(look, "/", "q", "c", "y") == []
    assert look.filter == "qcy"


def test_each_view_has_its_filter_and_a_job_has_none() -> None:
    look = TopLook()
    press(look, "/", "x", "enter", "3")
    assert look.filter == ""
    press(look, "2", "/")
    assert not look.is_filtering


def test_change_is_asked_before_it_is_made() -> None:
    look = TopLook()
    assert press(look, "down", "c") == []
    assert look.question == Change("cancel", JobId(2))
    assert press(look, "y") == [Change("cancel", JobId(2))]
    assert look.question is None


def test_every_other_answer_means_no() -> None:
    for key in ("n", "enter", "escape", "c", "q"):
        look = TopLook()
        assert press(look, "c", key) == []
        assert look.question is None


def test_h_holds_and_releases() -> None:
    look = TopLook()
    assert press(look, "h", "y", "down", "h", "y") == [Change("release", JobId(3)), Change("hold", JobId(2))]


def test_retry_needs_tasks_that_failed_or_were_cancelled() -> None:
    look = TopLook()
    assert press(look, "r", "y") == [Change("retry", JobId(3))]
    assert press(look, "down", "r", "y") == []
    press(look, "r")
    assert look.message == "no task of job 2 failed or was cancelled"


def test_job_that_has_ended_is_not_cancelled() -> None:
    look = TopLook()
    assert press(look, "end", "c") == []
    assert look.message == "job 1 has ended"


def test_observer_changes_nothing() -> None:
    scene = a_scene(a_job(2, waiting=5))
    scene.can_change = False
    look = TopLook()
    assert press(look, "c", "y", scene=scene) == []
    assert look.message == ""
    press(look, "h", scene=scene)
    assert look.message == "this key may look, and change nothing"


def test_changes_are_made_to_jobs_only() -> None:
    look = TopLook(TopView.WORKERS)
    assert press(look, "c", "y") == []


def test_help_is_left_by_any_key() -> None:
    look = TopLook()
    press(look, "?")
    assert look.shows_help
    press(look, "j")
    assert not look.shows_help
    assert chosen(look) == 3


def test_unknown_keys_do_nothing() -> None:
    look = TopLook()
    assert press(look, "x", "ü", "redraw") == []
    assert look == TopLook()
