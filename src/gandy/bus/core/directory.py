"""Which process offers which service. Announces our services to the other processes, and records theirs."""

from collections.abc import Iterator

from gandy.bus.core.effects import MemberOutput, ServiceFound, ServiceLost
from gandy.bus.core.links import Links
from gandy.bus.core.processes import Process, Providers
from gandy.bus.limits import MAX_SERVICES
from gandy.bus.wire.control import Services, encode_services, is_process, make_first_services
from gandy.bus.wire.dialects import CLOCK_SERVICE, LOCAL_SERVICE, Dialect


class ServiceDirectory:
    """All services of the ensemble, as far as this member knows. Changes are news."""

    def __init__(self, name: str, dialect: Dialect, links: Links, output: MemberOutput) -> None:
        self._name = name
        self._dialect = dialect
        self._links = links
        self._output = output
        self._own: dict[str, None] = {}
        self._providers = Providers()

    def find(self, service: str) -> str | None:
        """The process that has it; perhaps ourselves."""
        return self._providers.find(service)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Each service, and the process that has it."""
        return iter(self._providers)

    # Ours

    def offer(self, service: str) -> None:
        self._own[service] = None
        self.announce(service)
        self._report(service, self._providers.add(service, self._name))

    def announce(self, service: str) -> None:
        self._send_all(Services(self._name, (service,)))

    def withdraw(self, service: str) -> None:
        del self._own[service]
        self._send_all(Services(self._name, removed=(service,)))
        self._report(service, self._providers.remove(service, self._name))

    def greet(self, process: Process) -> None:
        """Announce all our services to a process that has just connected."""
        self._send(process, make_first_services(self._name, self._list_own(), self._dialect))

    def on_close(self) -> None:
        if not self._dialect.removes_by_services:  # libo2 1.1 hangs if a process removes a service and then leaves
            self._send_all(Services(self._name, removed=tuple(self._list_own())))

    def _list_own(self) -> list[str]:
        """Our services; the clock comes last."""
        return sorted(self._own, key=CLOCK_SERVICE.__eq__)

    def _send_all(self, services: Services) -> None:
        for process in self._links.list_greeted():
            self._send(process, services)

    def _send(self, process: Process, services: Services) -> None:
        for data in encode_services(services, process.name, self._dialect):
            self._output.write(process.link, data)

    # Theirs

    def on_services(self, process: Process, services: Services) -> bool:
        """True if the process now offers the clock and did not before, or the other way round."""
        had_clock = CLOCK_SERVICE in process.services
        for name in services.added:
            if is_process(name) or name == LOCAL_SERVICE:  # every process has its own, and cannot offer another's
                continue
            if len(process.services) >= MAX_SERVICES and name not in process.services:
                self._output.dropped["too many services"] += 1
                continue
            process.services[name] = None
            self._report(name, self._providers.add(name, process.name))
        for name in services.removed:
            if name in process.services:
                del process.services[name]
                self._report(name, self._providers.remove(name, process.name))
        return had_clock != (CLOCK_SERVICE in process.services)

    def on_lost(self, process: Process) -> None:
        for service in process.services:
            self._report(service, self._providers.remove(service, process.name))

    def _report(self, service: str, has_changed: bool) -> None:
        if has_changed:
            provider = self.find(service)
            self._output.news.append(ServiceLost(service) if provider is None else ServiceFound(service, provider))
