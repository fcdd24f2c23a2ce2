"""The suites: where each comes from, and how it is run against a broker or another system.

What is edited in a suite is the port it looks for its broker at (and one wait, of the Java client, that is long).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from simulator.server.tls import Tls
from tests.clients import cache, results
from tests.clients.broker import Broker, Certificates, Service
from tests.clients.cache import Source
from tests.clients.results import Outcome

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
OUT = ROOT / "out" / "clients"
TEST_SECONDS = 60

PYTHON = (
    "amqp==5.4.2", "kombu==5.7.0", "celery==5.7.0", "pika==1.3.2", "gevent==26.9.0", "tornado==6.6.1",
    "twisted==26.10.0", "pynose==1.5.5", "hypothesis==6.170.15", "pytest==8.4.2", "pytest-timeout==2.4.0",
    "pytest-rerunfailures==16.1",   # kombu's own authors let a test whose outcome hangs on timing try again
    "pyrabbit2==1.0.7", "requests==2.34.2",
    "msgspec==0.22.0", "regex==2026.11.15",   # what lies in this tree (celery, pyrabbit2): Hypothesis loads dlx there
)  # fmt: skip
IN_THIS_TREE = ("pytest==8.4.2", "pytest-timeout==2.4.0", "hypothesis==6.170.15", "msgspec==0.22.0",
                "regex==2026.11.15")  # fmt: skip


@dataclass(frozen=True)
class Run:
    """One run of a suite: against what, which tests (all, or those the suite's own filter takes)."""

    suite: str
    broker: Broker | Service
    only: str = ""
    seconds: int = 600

    @property
    def report(self) -> Path:
        return OUT / f"{self.suite}.report"

    @property
    def log(self) -> Path:
        return OUT / f"{self.suite}.log"

    def __call__(self, command: Sequence[str | Path], cwd: Path, env: Mapping[str, str] | None = None) -> str:
        """Run a command in a process group of its own until it ends or its time is over; "" or why it was ended."""
        with self.log.open("w") as log:
            process = subprocess.Popen(
                command, cwd=cwd, env={**os.environ, **self.broker.env, **(env or {})}, stdin=subprocess.DEVNULL,
                stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            try:
                process.wait(self.seconds)
            except subprocess.TimeoutExpired:
                return f"still running after {self.seconds} s"
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        return ""

    def outcomes(self, ended: str, read: Callable[[Path], list[Outcome]]) -> list[Outcome]:
        """What the report says; where there is none, or the run was cut short, the suite itself has failed."""
        try:
            found = read(self.report)
        except (OSError, ElementTree.ParseError, ValueError) as error:
            found, ended = [], ended or f"no report: {error}"
        if ended or not found:
            tail = self.log.read_text(errors="replace")[-3000:]
            found.append(Outcome("(the suite)", "failed", f"{ended or 'no test was run'}; end of {self.log}:\n{tail}"))
        return found


# pytest-timeout stays out of the event loop that aiomisc gives each test.
ASYNC_PYTHON = (
    "aio-pika==9.6.2", "aiormq==6.9.4", "aiomisc==18.0.37", "aiomisc-pytest==2.0.0", "shortuuid==1.0.13",
    "timeout-decorator==0.5.0", "pytest==8.4.2", "pytest-timeout==2.4.0",
)  # fmt: skip


def _pytest(
    run: Run,
    cwd: Path,
    files: Sequence[str],
    options: Sequence[str] = (),
    python: Sequence[str] = PYTHON,
    env: Mapping[str, str] | None = None,
) -> list[Outcome]:
    """Run pytest of the suites' own virtual environment, which holds the packages ``python``."""
    general = ("-q", "-p", "no:cacheprovider", f"--timeout={TEST_SECONDS}", f"--junitxml={run.report}")
    chosen = ["-k", run.only] if run.only else []
    ended = run([cache.virtualenv(python), "-m", "pytest", *general, *options, *chosen, *files], cwd, env)
    return run.outcomes(ended, results.junit_xml)


PY_AMQP = Source("amqp", "5.4.2", "9362660c4a31150cf18e78cae2ce8aa1e929fc6c6739e69f6dd5dbea9c3edc82")
KOMBU = Source("kombu", "5.7.0", "31e62fdfd2381caa3422f8e02b84a491d9a2180ddda74507b57f4cb1e1c2c2c9")
# Of pika 1.4.4, Debian's mirrors were found without the archive, and what PyPI has is without the tests.
PIKA = Source("python-pika", "1.3.2-1", "5eb71b9a0047c77d99378e525a2041fc50aae4a177b060f9825b3e2fdcc96fc4", (
    ("tests/base/async_test_base.py", "port=5672", "port=int(os.environ['AMQP_PORT'])"),
    ("tests/base/async_test_base.py", "localhost:5671/%2F", "localhost:' + os.environ['AMQPS_PORT'] + '/%2F"),
    ("tests/acceptance/blocking_adapter_test.py", "{'port': 5672}", "{'port': __import__('os').environ['AMQP_PORT']}"),
))  # fmt: skip
AIO_PIKA = Source("aio-pika", "9.6.2", "c49e9246080dc8ffa1bb0e4aca407bf3d8ad78c3ee3a93df88b68fe65d7a49b9", (
    ("tests/conftest.py", "_docker_host_info = check_docker_available()", "_docker_host_info = None"),
    ("tests/conftest.py", 'docker("mosquito/aiormq-rabbitmq", ["5672/tcp", "5671/tcp"])',
     'ContainerInfo("", {"5672/tcp": int(__import__("os").environ["AMQP_PORT"]), '
     '"5671/tcp": int(__import__("os").environ["AMQPS_PORT"])}, "127.0.0.1")'),
))  # fmt: skip
AIORMQ = Source("aiormq", "6.9.4", "0e7c01b662804e1cc7ace9a17794e8c1192a27fc2afa96162362a6e61ae8e8ef", (
    ("tests/conftest.py", '"5671/tcp": 5671', '"5671/tcp": int(os.environ["AMQPS_PORT"])'),
    ("tests/conftest.py", "else 5671", "else amqp_url.port"),
))  # fmt: skip
AMQPLIB = Source("amqplib", "1.1.1", "28f8a03d0b579b9a01e65e56dc0c32e85e73d27757502e5eb0949c607a3752fa", (
    ("test/callback_api.test.js", "connect((", "connect(process.env.URL, {}, ("),
    ("test/callback_api.test.js", "connect(dom", "connect(process.env.URL, {}, dom"),
    ("test/connect.test.js", "'amqp://localhost?", "process.env.URL + '?"),
    ("test/connect.test.js", "'amqp://localhost'", "process.env.URL"),
    ("test/connect.test.js", "'amqp://[::1]'", "process.env.URL.replace('127.0.0.1', '[::1]')"),
    ("test/connect.test.js", "connect({ heartbeat", "connect({ port: process.env.AMQP_PORT, heartbeat"),
    ("test/connect.test.js", "hostname: 'localhost' }", "hostname: 'localhost', port: process.env.AMQP_PORT }"),
))  # fmt: skip
_PORT = 'Integer.getInteger("amqp.port")'
_JAVA_TESTS = "src/test/java/com/rabbitmq/client/test"
JAVA = Source("rabbitmq-java-client", "5.0.0-1.1", "23c185a4b241c60223e8a800472d674f3d8e8fc5688bf99abe6ccdfd55e64aeb", (
    (f"{_JAVA_TESTS}/TestUtils.java", "ConnectionFactory connectionFactory = new ConnectionFactory();",
     f"ConnectionFactory connectionFactory = new ConnectionFactory(); connectionFactory.setPort({_PORT});"),
    (f"{_JAVA_TESTS}/functional/ConnectionOpen.java", "AMQP.PROTOCOL.PORT", _PORT),
    (f"{_JAVA_TESTS}/functional/ConnectionRecovery.java", 'new Address("127.0.0.1"), ', ""),
    (f"{_JAVA_TESTS}/functional/ConnectionRecovery.java", '"127.0.0.1", 5672)', f'"127.0.0.1", {_PORT})'),
    (f"{_JAVA_TESTS}/functional/ConnectionRecovery.java", "RECOVERY_INTERVAL = 2000", "RECOVERY_INTERVAL = 200"),
    (f"{_JAVA_TESTS}/functional/FrameMax.java", "super();", f"setPort({_PORT});"),
    (f"{_JAVA_TESTS}/functional/UnexpectedFrames.java", "super();\n            if",
     f"setPort({_PORT});\n            if"),
))  # fmt: skip


def certificates(suite: str) -> Certificates | None:
    """Those of a broker for the suite: the suite's own, or new ones where it brings none; ``None``: it needs no TLS."""
    if suite == "aiormq":
        own = cache.python_source(AIORMQ) / "tests/certs"
        return Certificates(own / "server.pem", own / "server.key", own / "ca.pem")
    if suite == "pika-tls":
        own = cache.debian_source(PIKA) / "testdata/certs"
        return Certificates(own / "server_certificate.pem", own / "server_key.pem", own / "ca_certificate.pem")
    if suite not in ("py-amqp", "aio-pika"):
        return None
    new = _generated(OUT / "certificates")
    return Certificates(new / "cert.pem", new / "key.pem", new / "ca.pem")


def _generated(folder: Path) -> Path:
    from simulator.server.certificates import generated  # it takes trustme, which few suites need

    folder.mkdir(parents=True, exist_ok=True)
    generated(Tls(), folder)
    return folder


def py_amqp(run: Run) -> list[Outcome]:
    """Its archive lacks the certificates that it looks for: a client's, and one that the broker refuses."""
    source = cache.python_source(PY_AMQP)
    if isinstance(run.broker, Broker) and run.broker.tls_port:
        new, looked_for = OUT / "certificates", source / "t/certs"
        looked_for.mkdir(exist_ok=True)
        shutil.copy(new / "ca.pem", looked_for / "ca_certificate.pem")
        for folder, suffix in ((new, ""), (_generated(OUT / "certificates/strange"), "_broken")):
            shutil.copy(folder / "client_cert.pem", looked_for / f"client_certificate{suffix}.pem")
            shutil.copy(folder / "client_key.pem", looked_for / f"client_key{suffix}.pem")
    return _pytest(run, source, ["t/integration"], ["-p", "no:rerunfailures"])


def kombu(run: Run) -> list[Outcome]:
    return _pytest(run, cache.python_source(KOMBU), ["t/integration/test_py_amqp.py"])


def pika(run: Run) -> list[Outcome]:
    source = cache.debian_source(PIKA)
    return _pytest(run, source, ["tests/acceptance"], ["-o", "python_files=*_test.py *_tests.py"])


def pika_tls(run: Run) -> list[Outcome]:
    """The tests of its asynchronous adapters once more, with TLS."""
    source = cache.debian_source(PIKA)
    options = ["-o", "python_files=*_test.py *_tests.py"]
    return _pytest(run, source, ["tests/acceptance/async_adapter_tests.py"], options, env={"PIKA_TEST_TLS": "true"})


def aio_pika(run: Run) -> list[Outcome]:
    """Where the broker lacks TLS, without the tests that need it: each of them tries to reconnect for long."""
    lacking = isinstance(run.broker, Broker) and run.broker.tls_port is None
    left_out = ["--ignore=tests/test_amqps.py"] if lacking else []
    run = replace(run, seconds=900)  # on a busy machine it took 600
    return _pytest(run, cache.python_source(AIO_PIKA), ["tests"], left_out, python=ASYNC_PYTHON)


def aiormq(run: Run) -> list[Outcome]:
    """It finds the broker at ``$AMQP_URL``."""
    return _pytest(run, cache.python_source(AIORMQ), ["tests"], python=ASYNC_PYTHON)


def celery(run: Run) -> list[Outcome]:
    return _pytest(run, ROOT, ["tests/clients/test_celery.py"], ["-m", "clients"])


def pyrabbit2(run: Run) -> list[Outcome]:
    return _pytest(run, ROOT, ["tests/clients/test_pyrabbit2.py"], ["-m", "clients"])


def amqplib(run: Run) -> list[Outcome]:
    source = cache.npm_source(AMQPLIB, ["buffer-more-ints@1.0.0", "claire@0.4.1"])
    return run.outcomes(run(_node_tests(run), source), results.junit_xml)


GO_PACKAGES = (
    "golang-github-rabbitmq-amqp091-go-dev/forky", "golang-uber-goleak-dev/forky",
    "golang-1.24-go/trixie", "golang-1.24-src/trixie",
)  # fmt: skip
_GO = "usr/share/gocode/src/github.com/rabbitmq/amqp091-go"
_GO_PORT = 'os.Getenv("DLX_MANAGEMENT_PORT")'
GO_EDITS = (
    (f"{_GO}/recovery_test.go", '"net/url"', '"net/url"\n\t"os"'),
    (f"{_GO}/recovery_test.go", '"15672"', _GO_PORT),
    (f"{_GO}/internal/utils/http.go", '"net/http"', '"net/http"\n\t"os"'),
    (f"{_GO}/internal/utils/http.go", "localhost:15672/", f'localhost:" + {_GO_PORT} + "/'),
)


def go(run: Run) -> list[Outcome]:
    tree = cache.debian_packages("go", GO_PACKAGES, GO_EDITS)
    package = tree / _GO
    tool = tree / "usr/lib/go-1.24/bin/go"
    env = {
        "GOROOT": str(tree / "usr/lib/go-1.24"), "GOPATH": str(tree / "usr/share/gocode"), "GO111MODULE": "off",
        "GOTOOLCHAIN": "local", "GOCACHE": str(tree / "cache"), "GOFLAGS": "", "CGO_ENABLED": "0",
    }  # fmt: skip
    binary = tree / "amqp091.test"
    if not binary.exists():
        cache.command([tool, "test", "-c", "-vet=off", "-tags", "integration", "-o", binary, "."], package, env)
    chosen = ["-test.run", run.only] if run.only else []
    limit = f"-test.timeout={run.seconds - 10}s"  # so that it says where it hangs
    ended = run([tool, "tool", "test2json", binary, "-test.v", limit, *chosen], package, env)
    run.report.write_text(run.log.read_text(errors="replace"))
    return run.outcomes(ended, lambda report: results.go_json(report.read_text()))


JAVA_PACKAGES = (
    "librabbitmq-client-java/bookworm", "junit4/bookworm", "libhamcrest-java/bookworm", "libmockito-java/bookworm",
    "libbyte-buddy-java/bookworm", "libobjenesis-java/bookworm", "libslf4j-java/bookworm",
    "libcommons-cli-java/bookworm", "libdropwizard-metrics-java/bookworm", "libeclipse-jdt-core-java/bookworm",
)  # fmt: skip
JARS = (
    "amqp-client", "junit4", "hamcrest-all", "mockito-core", "byte-buddy", "byte-buddy-agent", "objenesis", "slf4j-api",
    "slf4j-nop", "metrics-core", "commons-cli",
)  # fmt: skip
# What is left out: restarts and clusters of servers, settings only `rabbitmqctl eval` reaches, alarms made by `make`,
# and one whose library Debian lacks (Metrics).
JAVA_LEFT_OUT = {
    "Metrics", "BlockedConnection", "ChannelLimitNegotiation", "DurableBindingLifecycle", "DeadLetterExchangeDurable",
    "EffectVisibilityCrossNodeTest", "ExclusiveQueueDurability", "LoopbackUsers", "MemoryAlarms", "MessageRecovery",
    "PersistenceGuarantees", "Shutdown", "AbsentQueue", "Bug19219Test",
}  # fmt: skip


def java(run: Run) -> list[Outcome]:
    source, jars = cache.debian_source(JAVA), cache.debian_packages("java", JAVA_PACKAGES) / "usr/share/java"
    tests = _java_tests(source / "src/test/java")
    path = ":".join([str(source / "compiled"), *(str(jars / f"{name}.jar") for name in JARS)])
    if not (source / "compiled").exists():
        _compile(run.log, source, jars / "eclipse-jdt-core.jar", path, tests)
    rabbitmqctl = f"{sys.executable} -IS {HERE / 'rabbitmqctl'}"  # as a shell takes it; starts in a tenth of the time
    settings = {
        "amqp.port": run.broker.env["AMQP_PORT"], "rabbitmqctl.bin": rabbitmqctl, "make.bin": rabbitmqctl,
        "test-broker.A.nodename": "-", "rabbitmq.dir": "-",
    }  # fmt: skip
    command = ["java", *(f"-D{key}={value}" for key, value in settings.items()), "-cp", path, "Suite"]
    ended = run([*command, str(TEST_SECONDS), run.report, *(name for name in tests if run.only in name)], source)
    return run.outcomes(ended, results.lines)


def _compile(log: Path, source: Path, compiler: Path, path: str, tests: Sequence[str]) -> None:
    """With Eclipse's compiler: it needs no JDK, and goes on after a class whose library is missing."""
    sources, compiled = source / "src/test/java", source / "compiled"
    files = [HERE / "junit/Suite.java", *(sources / (name.replace(".", "/") + ".java") for name in tests)]
    java = ("java", "-cp", compiler, "org.eclipse.jdt.internal.compiler.batch.Main")
    options = ("-11", "-nowarn", "-proc:none", "-proceedOnError", "-d", compiled, "-cp", path, "-sourcepath", sources)
    with log.open("w") as output:
        subprocess.run([*java, *options, *files], stdout=output, stderr=subprocess.STDOUT, check=False)
    if not (compiled / "Suite.class").exists():
        shutil.rmtree(compiled, ignore_errors=True)
        raise cache.UnobtainableError(f"the Java tests did not compile; see {log}")


def _java_tests(sources: Path) -> list[str]:
    """The names of the test classes, those aside that group others or cannot run here."""
    found = []
    for folder in ("functional", "server"):
        for file in sorted((sources / "com/rabbitmq/client/test" / folder).glob("*.java")):
            text = file.read_text()
            if "@Test" in text and "abstract class" not in text and file.stem not in JAVA_LEFT_OUT:
                found.append(f"com.rabbitmq.client.test.{folder}.{file.stem}")
    return found


ZAQARCLIENT = ("python-zaqarclient==4.7.0", *IN_THIS_TREE)
IRON_MQ = ("iron-mq==0.9", *IN_THIS_TREE)
NPM_IRON_MQ = ("iron_mq@0.9.3",)
NPM_RHEA = ("rhea@3.0.5",)


def zaqarclient(run: Run) -> list[Outcome]:
    return _pytest(run, ROOT, ["tests/clients/test_zaqarclient.py"], ["-m", "clients"], python=ZAQARCLIENT)


def iron_mq(run: Run) -> list[Outcome]:
    return _pytest(run, ROOT, ["tests/clients/test_iron_mq.py"], ["-m", "clients"], python=IRON_MQ)


def npm_iron_mq(run: Run) -> list[Outcome]:
    return _node(run, "iron_mq", NPM_IRON_MQ)


def rhea(run: Run) -> list[Outcome]:
    return _node(run, "rhea", NPM_RHEA)


def _node(run: Run, name: str, packages: Sequence[str]) -> list[Outcome]:
    """Run the file of tests that lies here for a client of node."""
    folder = cache.npm_packages(name, packages)
    ended = run([*_node_tests(run), HERE / f"{name}.test.js"], folder, {"NODE_PATH": str(folder / "node_modules")})
    return run.outcomes(ended, results.junit_xml)


def _node_tests(run: Run) -> list[str]:
    command = ["node", "--test", "--test-timeout=10000", "--test-reporter=junit"]
    chosen = [f"--test-name-pattern={run.only}"] if run.only else []
    return [*command, f"--test-reporter-destination={run.report}", *chosen]


SUITES: dict[str, Callable[[Run], list[Outcome]]] = {
    "py-amqp": py_amqp, "kombu": kombu, "pika": pika, "pika-tls": pika_tls, "aio-pika": aio_pika, "aiormq": aiormq,
    "celery": celery, "pyrabbit2": pyrabbit2, "amqplib": amqplib, "rhea": rhea, "go": go, "java": java,
    "python-zaqarclient": zaqarclient, "iron-mq": iron_mq, "npm-iron_mq": npm_iron_mq,
}  # fmt: skip
SYSTEMS = {"python-zaqarclient": "zaqar", "iron-mq": "ironmq", "npm-iron_mq": "ironmq"}
"""The suites that are not for RabbitMQ, and what they are for."""
