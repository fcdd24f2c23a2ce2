import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.*;
import java.util.concurrent.atomic.AtomicInteger;
import javax.jms.*;
import javax.jms.Message;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.ActiveMQMessageAudit;
import org.apache.activemq.ActiveMQSession;
import org.apache.activemq.RedeliveryPolicy;
import org.apache.activemq.ScheduledMessage;
import org.apache.activemq.broker.BrokerFactory;
import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.broker.region.BaseDestination;
import org.apache.activemq.broker.region.Queue;
import org.apache.activemq.broker.region.policy.AbstractDeadLetterStrategy;
import org.apache.activemq.broker.region.policy.RedeliveryPolicyMap;
import org.apache.activemq.command.ActiveMQDestination;
import org.apache.activemq.command.ActiveMQMessage;
import org.apache.activemq.command.ActiveMQTextMessage;
import org.apache.activemq.filter.BooleanExpression;
import org.apache.activemq.filter.NonCachedMessageEvaluationContext;
import org.apache.activemq.selector.SelectorParser;
import org.apache.activemq.util.IOHelper;
import org.apache.activemq.util.IntrospectionSupport;

/**
 * Plays the steps of scenarios to real brokers, in real time: each to a broker that it starts for
 * it, new and empty, from the activemq.xml of the step "broker" that the scenario begins with; the
 * step "end" ends it. Where that first step has "late_max_ms", a step that begins later than so
 * long after its "at_ms" is not played, and neither is what follows.
 *
 * A step is a line of fields "name=value" with tabs between them, percent-encoded; an inner field is
 * "outer.name", one of a list "outer.0.name". What came of it is a line of JSON on standard output:
 * one for each delivery, and one for each step that looks at something.
 */
public class Player {
  private String url;
  private BrokerService broker;
  private File configuration;
  private long began = System.currentTimeMillis();
  private final Map<String, ActiveMQConnection> connections = new HashMap<>();
  private final Map<String, Session> sessions = new HashMap<>();
  private final Map<String, MessageConsumer> consumers = new HashMap<>();
  private final Map<String, Session> sessionOf = new HashMap<>();
  private final Map<String, Message> last = new HashMap<>();
  private int step = -1;
  private long lateMaxMs;
  private boolean late;

  public static void main(String[] arguments) {
    int status = 0;
    try {
      new Player().playAll();
    } catch (Exception error) {
      error.printStackTrace();
      status = 1;
    }
    System.exit(status);  // a connection that is left open has threads that would go on
  }

  private void playAll() throws Exception {
    BufferedReader steps = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = steps.readLine(); line != null; line = steps.readLine()) {
      Map<String, String> fields = new LinkedHashMap<>();
      for (String field : line.split("\t")) {
        int mark = field.indexOf('=');
        fields.put(decoded(field.substring(0, mark)), decoded(field.substring(mark + 1)));
      }
      playOn(fields);
    }
    for (ActiveMQConnection connection : connections.values()) connection.close();
  }

  /** Goes on after a step that fails, and tells how it did. */
  private void playOn(Map<String, String> step) throws Exception {
    try {
      switch (step.get("do")) {
        case "broker": begin(step); break;
        case "end": end(); break;
        default: if (inTime(step)) play(step);
      }
    } catch (Exception error) {
      tell("refused", error.toString());
    }
  }

  private void begin(Map<String, String> fields) throws Exception {
    configuration = File.createTempFile("activemq", ".xml");
    configuration.deleteOnExit();
    Files.writeString(configuration.toPath(), fields.get("xml"));
    step = -1;
    late = false;
    lateMaxMs = Long.parseLong(fields.getOrDefault("late_max_ms", String.valueOf(Long.MAX_VALUE)));
    startBroker(true);
    began = System.currentTimeMillis();
    tell("started", true);
  }

  private void startBroker(boolean empty) throws Exception {
    forgetDeadLetters();
    BrokerFactory.setStartDefault(false);  // or it starts as soon as its configuration is read
    broker = BrokerFactory.createBroker("xbean:" + configuration.toURI(), false);
    if (empty) broker.setDeleteAllMessagesOnStartup(true);
    if (empty) IOHelper.deleteFile(broker.getSchedulerDirectoryFile());  // or it would send what the last one was to send
    broker.setUseJmx(false);
    broker.setUseShutdownHook(false);
    broker.addConnector("tcp://127.0.0.1:0");
    broker.start();
    broker.waitUntilStarted();
    url = broker.getTransportConnectorByScheme("tcp").getConnectUri().toString();
  }

  /** All brokers of a process share the strategy of destinations that have none, and its audit. */
  private static void forgetDeadLetters() throws Exception {
    Field audit = AbstractDeadLetterStrategy.class.getDeclaredField("messageAudit");
    audit.setAccessible(true);
    ((ActiveMQMessageAudit) audit.get(BaseDestination.DEFAULT_DEAD_LETTER_STRATEGY)).clear();
  }

  private void stopBroker() throws Exception {
    for (ActiveMQConnection connection : connections.values()) connection.getTransport().stop();
    if (broker == null) return;
    broker.stop();
    broker.waitUntilStopped();
    broker = null;
  }

  private void end() throws Exception {
    stopBroker();
    for (Map<String, ?> known : List.of(connections, sessions, consumers, sessionOf, last)) known.clear();
    tell("ended", true);
  }

  private static String decoded(String text) {
    return URLDecoder.decode(text, StandardCharsets.UTF_8);
  }

  /** Waits until it is time for a step, and returns whether this was in time, as with all steps before. */
  private boolean inTime(Map<String, String> step) throws Exception {
    this.step++;
    if (late) return false;
    if (!step.containsKey("at_ms")) return true;
    long atMs = Long.parseLong(step.get("at_ms"));
    pause(atMs - (System.currentTimeMillis() - began));
    long lateMs = System.currentTimeMillis() - began - atMs;
    late = lateMs > lateMaxMs;
    if (late) tell("late_ms", lateMs);
    return !late;
  }

  private void play(Map<String, String> step) throws Exception {
    String session = step.get("session"), consumer = step.get("consumer"), connection = step.get("connection");
    switch (step.get("do")) {
      case "connect": connect(step); break;
      case "session": openSession(step); break;
      case "consumer": consume(step); break;
      case "send": send(step); break;
      case "receive": tell("received", received(consumer, Long.parseLong(step.getOrDefault("timeout_ms", "0")))); break;
      case "process": process(step); break;
      case "commit": sessions.get(session).commit(); break;
      case "rollback": sessions.get(session).rollback(); break;
      case "recover": sessions.get(session).recover(); break;
      case "acknowledge": last.get(consumer).acknowledge(); break;
      case "restart": stopBroker(); startBroker(false); break;
      case "select": tell("selects", selects(step)); break;
      case "retry": tell("retried", retry(step.get("queue"))); break;
      case "wait": pause(Long.parseLong(step.get("ms"))); break;
      case "browse": tell("count", browse(step.get("queue"))); break;
      case "drain": drain(step.get("queue")); break;
      case "disconnect": connections.remove(connection).getTransport().stop(); pause(300); break;
      case "close":
        if (consumer != null) consumers.get(consumer).close();
        else if (session != null) sessions.get(session).close();
        else connections.remove(connection).close();
        break;
      default: throw new IllegalArgumentException("no such step: " + step.get("do"));
    }
  }

  private static void pause(long ms) throws InterruptedException {
    if (ms > 0) Thread.sleep(ms);
  }

  private void connect(Map<String, String> step) throws Exception {
    ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(url);
    RedeliveryPolicyMap policies = new RedeliveryPolicyMap();
    policies.setDefaultEntry(policy(inner(step, "redelivery_policy.")));
    List<RedeliveryPolicy> entries = new ArrayList<>();
    for (int n = 0; !inner(step, "redelivery_policies." + n + ".").isEmpty(); n++)
      entries.add(policy(inner(step, "redelivery_policies." + n + ".")));
    policies.setRedeliveryPolicyEntries(entries);
    factory.setRedeliveryPolicyMap(policies);
    factory.setNonBlockingRedelivery(Boolean.parseBoolean(step.get("non_blocking_redelivery")));
    ActiveMQConnection connection = (ActiveMQConnection) factory.createConnection();
    if (step.containsKey("client_id")) connection.setClientID(step.get("client_id"));
    if (step.containsKey("prefetch")) connection.getPrefetchPolicy().setAll(Integer.parseInt(step.get("prefetch")));
    connection.start();
    connections.put(step.get("connection"), connection);
  }

  private static RedeliveryPolicy policy(Map<String, String> fields) {
    RedeliveryPolicy policy = new RedeliveryPolicy();
    Map<String, Object> left = new HashMap<>(fields);
    IntrospectionSupport.setProperties(policy, left);
    if (!left.isEmpty()) throw new IllegalArgumentException("not fields of a redelivery policy: " + left);
    return policy;
  }

  private static Map<String, String> inner(Map<String, String> step, String prefix) {
    Map<String, String> found = new LinkedHashMap<>();
    step.forEach((name, value) -> { if (name.startsWith(prefix)) found.put(name.substring(prefix.length()), value); });
    return found;
  }

  private void openSession(Map<String, String> step) throws JMSException {
    Map<String, Integer> modes = Map.of("auto", Session.AUTO_ACKNOWLEDGE, "client", Session.CLIENT_ACKNOWLEDGE,
        "dups_ok", Session.DUPS_OK_ACKNOWLEDGE, "individual", ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE);
    String mode = step.getOrDefault("acknowledge", "auto");
    boolean transacted = mode.equals("transacted");
    int number = transacted ? Session.SESSION_TRANSACTED : modes.get(mode);
    sessions.put(step.get("session"), connections.get(step.get("connection")).createSession(transacted, number));
  }

  private void consume(Map<String, String> step) throws JMSException {
    Session session = sessions.get(step.get("session"));
    Destination destination = destination(step.get("destination"));
    String name = step.get("consumer");
    MessageConsumer consumer = step.containsKey("subscription")
        ? session.createDurableSubscriber((Topic) destination, step.get("subscription"), step.get("selector"), false)
        : session.createConsumer(destination, step.get("selector"));
    consumers.put(name, consumer);
    sessionOf.put(name, session);
    String fails = step.get("listener.fails");
    if (fails == null) return;
    Map<String, Integer> seen = new HashMap<>();
    AtomicInteger calls = new AtomicInteger();
    String exception = step.getOrDefault("listener.exception", "failed").replace("java.lang.RuntimeException: ", "");
    consumer.setMessageListener(message -> {
      try {
        calls.incrementAndGet();
        delivered(name, message);
        int times = seen.merge(message.getJMSMessageID(), 1, Integer::sum);
        if (!fails.equals("always") && times > Integer.parseInt(fails)) return;
      } catch (JMSException error) {
        throw new RuntimeException(error);
      }
      throw new RuntimeException(exception.replace("{n}", String.valueOf(calls.get())));
    });
  }

  private static Destination destination(String name) {
    return ActiveMQDestination.createDestination(name, ActiveMQDestination.QUEUE_TYPE);
  }

  private void send(Map<String, String> step) throws JMSException {
    if (step.containsKey("session")) {
      send(step, sessions.get(step.get("session")));
      return;
    }
    ActiveMQConnection connection = (ActiveMQConnection) new ActiveMQConnectionFactory(url).createConnection();
    send(step, connection.createSession(false, Session.AUTO_ACKNOWLEDGE));
    connection.close();
  }

  private static void send(Map<String, String> step, Session session) throws JMSException {
    TextMessage message = session.createTextMessage(step.getOrDefault("body", ""));
    setProperties(message, step);
    if (step.containsKey("delay_ms"))
      message.setLongProperty(ScheduledMessage.AMQ_SCHEDULED_DELAY, Long.parseLong(step.get("delay_ms")));
    int mode = "false".equals(step.get("persistent")) ? DeliveryMode.NON_PERSISTENT : DeliveryMode.PERSISTENT;
    int priority = Integer.parseInt(step.getOrDefault("priority", "4"));
    long ttl = Long.parseLong(step.getOrDefault("ttl_ms", "0"));
    MessageProducer producer = session.createProducer(destination(step.get("to")));
    producer.send(message, mode, priority, ttl);
    producer.close();
  }

  private static void setProperties(Message message, Map<String, String> step) throws JMSException {
    for (Map.Entry<String, String> property : inner(step, "properties.").entrySet())
      message.setStringProperty(property.getKey(), property.getValue());
    for (Map.Entry<String, String> property : inner(step, "numbers.").entrySet())
      message.setLongProperty(property.getKey(), Long.parseLong(property.getValue()));
    for (Map.Entry<String, String> property : inner(step, "decimals.").entrySet())
      message.setDoubleProperty(property.getKey(), Double.parseDouble(property.getValue()));
    for (Map.Entry<String, String> property : inner(step, "switches.").entrySet())
      message.setBooleanProperty(property.getKey(), Boolean.parseBoolean(property.getValue()));
  }

  /** What the broker's reader of selectors makes of one: whether it selects a message, is refused, or fails at it. */
  private static String selects(Map<String, String> step) throws Exception {
    ActiveMQTextMessage message = new ActiveMQTextMessage();
    message.setJMSMessageID("ID:a-1:1:1:1:1");
    message.setJMSDestination(destination("Q"));
    message.setJMSPriority(4);
    message.setPersistent(true);
    if (step.containsKey("body")) message.setText(step.get("body"));
    setProperties(message, step);
    NonCachedMessageEvaluationContext context = new NonCachedMessageEvaluationContext();
    context.setMessageReference(message);
    BooleanExpression read;
    try {
      read = SelectorParser.parse(step.get("selector"));
    } catch (InvalidSelectorException error) {
      return "refused";
    }
    try {
      return String.valueOf(read.matches(context));
    } catch (RuntimeException error) {
      return "fails";
    }
  }

  private int retry(String queue) throws Exception {
    Queue found = (Queue) broker.getDestination((ActiveMQDestination) destination(queue));
    return found.retryMessages(broker.getAdminConnectionContext(), Integer.MAX_VALUE);
  }

  private Message received(String consumer, long timeout) throws JMSException {
    Message message = consumers.get(consumer).receive(Math.max(timeout, 200));
    if (message != null) delivered(consumer, message);
    return message;
  }

  private void delivered(String consumer, Message message) throws JMSException {
    last.put(consumer, message);
    Map<String, Object> line = new LinkedHashMap<>(described(message));
    line.put("consumer", consumer);
    tell("delivered", line);
  }

  private void process(Map<String, String> step) throws JMSException {
    String consumer = step.get("consumer"), fails = step.getOrDefault("fails", "always");
    Session session = sessionOf.get(consumer);
    Map<String, Integer> seen = new HashMap<>();
    int count = 0;
    for (Message message; (message = received(consumer, Long.parseLong(step.get("idle_ms")))) != null; count++) {
      int times = seen.merge(message.getJMSMessageID(), 1, Integer::sum);
      boolean failed = fails.equals("always") || times <= Integer.parseInt(fails);
      if (session.getTransacted() && failed) session.rollback();
      else if (session.getTransacted()) session.commit();
      else if (failed) session.recover();
      else message.acknowledge();
    }
    tell("processed", count);
  }

  private int browse(String queue) throws JMSException {
    ActiveMQConnection connection = (ActiveMQConnection) new ActiveMQConnectionFactory(url).createConnection();
    connection.start();
    Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
    Enumeration<?> messages = session.createBrowser((javax.jms.Queue) destination(queue)).getEnumeration();
    int count = 0;
    for (; messages.hasMoreElements(); count++) messages.nextElement();
    connection.close();
    return count;
  }

  private void drain(String queue) throws JMSException {
    ActiveMQConnection connection = (ActiveMQConnection) new ActiveMQConnectionFactory(url).createConnection();
    connection.start();
    Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
    MessageConsumer consumer = session.createConsumer(destination(queue));
    List<Object> found = new ArrayList<>();
    for (Message message; (message = consumer.receive(500)) != null; ) found.add(described(message));
    connection.close();
    tell("messages", found);
  }

  private static Map<String, Object> described(Message message) throws JMSException {
    ActiveMQMessage sent = (ActiveMQMessage) message;
    Map<String, Object> properties = new TreeMap<>();
    try {
      properties.putAll(sent.getProperties());
    } catch (java.io.IOException error) {
      throw new RuntimeException(error);
    }
    Map<String, Object> found = new LinkedHashMap<>();
    found.put("body", message instanceof TextMessage ? ((TextMessage) message).getText() : "");
    found.put("JMSRedelivered", message.getJMSRedelivered());
    found.put("JMSXDeliveryCount", message.getIntProperty("JMSXDeliveryCount"));
    found.put("JMSDestination", String.valueOf(message.getJMSDestination()));
    found.put("originalDestination", sent.getOriginalDestination() == null ? null : sent.getOriginalDestination().toString());
    found.put("JMSDeliveryMode", message.getJMSDeliveryMode() == DeliveryMode.PERSISTENT ? "PERSISTENT" : "NON_PERSISTENT");
    found.put("JMSExpiration", message.getJMSExpiration());
    found.put("JMSPriority", message.getJMSPriority());
    found.put("properties", properties);
    if (sent.getDataStructure() instanceof ActiveMQMessage) {
      properties.keySet().removeIf(name -> name.startsWith("originBroker"));  // those of one run
      found.put("about", toldOf((ActiveMQMessage) sent.getDataStructure()));
    }
    return found;
  }

  /** What an advisory message tells of. */
  private static Map<String, Object> toldOf(ActiveMQMessage message) throws JMSException {
    Map<String, Object> found = new LinkedHashMap<>();
    found.put("JMSDestination", String.valueOf(message.getJMSDestination()));
    found.put("JMSExpiration", message.getJMSExpiration());
    try {
      found.put("properties", new TreeMap<>(message.getProperties()));
    } catch (java.io.IOException error) {
      throw new RuntimeException(error);
    }
    return found;
  }

  private synchronized void tell(String what, Object value) throws JMSException {
    Map<String, Object> line = new LinkedHashMap<>();
    line.put("step", step);
    line.put("time_ms", System.currentTimeMillis() - began);
    line.put(what, value instanceof Message ? described((Message) value) : value);
    System.out.println(json(line));
  }

  private static String json(Object value) {
    if (value instanceof Map) {
      StringJoiner fields = new StringJoiner(",", "{", "}");
      ((Map<?, ?>) value).forEach((name, each) -> fields.add(json(name.toString()) + ":" + json(each)));
      return fields.toString();
    }
    if (value instanceof List) {
      StringJoiner items = new StringJoiner(",", "[", "]");
      for (Object each : (List<?>) value) items.add(json(each));
      return items.toString();
    }
    if (value == null || value instanceof Number || value instanceof Boolean) return String.valueOf(value);
    StringBuilder text = new StringBuilder("\"");
    for (char each : value.toString().toCharArray()) {
      if (each == '"' || each == '\\') text.append('\\').append(each);
      else if (each < ' ') text.append(String.format("\\u%04x", (int) each));
      else text.append(each);
    }
    return text.append('"').toString();
  }
}
