"""`SlsProject`: many logstores of a project as Dagster definitions, from one `defs.yaml`.

Why the list of logstores is a file beside the settings, and not asked of the service at each load: Dagster
loads the definitions in the code server, the daemon and each run, at moments of their own. Story: the service
answers with an empty list for a minute. The code server loads no assets, schedules and sensors of that
location are gone, and runs that are queued find no job. With the list kept, an outage of the service changes
nothing, and a run and the page have the same logstores.

A run of one logstore builds that one alone (`wanted.py`), since it pays for each that it makes. What is of
all together (the shared run, the sensors) is made only where all are.
"""

from collections.abc import Collection, Iterable
from functools import partial
from typing import Any, Self

import dagster as dg
from pydantic import BaseModel, RootModel

from pipelines.components.component import SlsLogstore, pruned_jobs
from pipelines.components.following import following_sensor
from pipelines.components.logstore.sensors.ticks import Lookout, sensor_of
from pipelines.components.logstore.wanted import all_are_wanted
from pipelines.components.shared_run import SharedRun
from pipelines.components.shared_sensors import shared_sensor
from pipelines.landing import environment
from pipelines.landing.defs_file import FILES
from pipelines.landing.logstore import Logstore, checked
from pipelines.landing.project_file import ProjectAttributes, attributes_of, members
from pipelines.landing.projects import name_of_all
from pipelines.landing.table.home import use


class ProjectSchema(RootModel[dict[str, Any]]):
    """The attributes as written, for editors."""

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The schema of `ProjectAttributes`; one pattern need not be a list."""
        schema: dict[str, Any] = ProjectAttributes.model_json_schema(*args, **kwargs)
        for name in ("logstores", "exclude"):
            whole = schema["properties"][name]
            schema["properties"][name] = {"anyOf": [whole, {"type": "string"}]}
        return schema


class SlsProject(dg.Component):
    """The logstores of a project that a pattern names, each as `SlsLogstore` would make it.

    The list of them is kept beside this file. The sensor <folder>_logstores_sensor asks the service for new
    ones and has the code location loaded again; so does `sls-lake new --refresh --execute` by hand. No
    answer of the service takes one away. With `schedule` one run lands them all (`SharedRun`).
    """

    def __init__(
        self, logstores: list[tuple[Logstore, str]], *, sensors: Collection[str] = (), schedule: str = ""
    ) -> None:
        self.logstores, self.sensors, self.schedule = logstores, sensors, schedule

    @classmethod
    def get_model_cls(cls) -> type[BaseModel]:
        """The attributes before templates are filled in."""
        return ProjectSchema

    @classmethod
    def load(cls, attributes: BaseModel | None, context: dg.ComponentLoadContext) -> Self:
        """Every logstore that is kept, checked as one of its own. Raises ConfigError with the cure."""
        written = attributes.root if isinstance(attributes, ProjectSchema) else {}
        project = attributes_of(written, context.path)
        found = []
        for name, its in members(project, context.path).items():
            place = f"{context.path} ({name})"
            values, unset = environment.filled(its, place)
            found.append((checked(values, place), unset))
        return cls(found, sensors=project.sensors, schedule=project.schedule)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """The definitions of all of them, none before the first refresh; and what is of all together."""
        use(context.project_root)
        file = next((path for name in FILES if (path := context.path / name).is_file()), context.path)
        whole, name = tuple(logstore for logstore, _ in self.logstores), name_of_all(file)
        # Old ones are there also where nobody schedules one any more. Made where old runs are pruned alone:
        # whoever loads the definitions, each run too, would make the keys of all logstores.
        shared = partial(pruned_jobs, [SharedRun(name, whole).job_name], whole)
        made = (SlsLogstore(logstore, unset=unset, shared=shared) for logstore, unset in self.logstores)
        each = [one.parts(context) for one in made]
        own = [definitions for definitions, _ in each]
        if not all_are_wanted():
            return dg.Definitions.merge(*own)
        loaded = frozenset(logstore.service.logstore for logstore, _ in self.logstores)
        following = following_sensor(file, context.project_root, loaded, running="logstores" in self.sensors)
        grouped = tuple(logstore for logstore, unset in self.logstores if self.schedule and not unset)
        together = SharedRun(name, grouped) if grouped else None
        sensors = self._sensors(name, [one for _, lookouts in each for one in lookouts], together)
        runs = [together.definitions(self.schedule)] if together else []
        return dg.Definitions.merge(*own, *runs, dg.Definitions(sensors=[following, *sensors]))

    def _sensors(
        self, name: str, lookouts: Iterable[Lookout], together: SharedRun | None
    ) -> list[dg.SensorDefinition]:
        """Those that logstores have of their own, since their settings name them; one a kind for the rest."""
        found, shared = list[dg.SensorDefinition](), dict[str, list[Lookout]]()
        for each in lookouts:
            if each.is_own:
                found.append(sensor_of(each))
            else:
                shared.setdefault(each.what, []).append(each)
        for what, of in shared.items():
            asks = together if what == "demand" else None  # the others ask for no landing
            found.append(shared_sensor(name, of, running=what in self.sensors, together=asks))
        return found
