import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Enumeration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.management.MBeanServerConnection;
import javax.management.MalformedObjectNameException;
import javax.management.ObjectName;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.ScheduledMessage;
import org.apache.activemq.command.ActiveMQMessage;

/** The verbs of tests/proofs/live_brokers/driver.py on ActiveMQ Classic, by JMS: a line of JSON in, a line out. */
public final class ClassicDriver {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final ObjectName QUEUES = named("org.apache.activemq:type=Broker,brokerName=live,"
        + "destinationType=Queue,destinationName=*");

    private final String url;
    private final MBeanServerConnection management;
    private final Map<String, Client> clients = new HashMap<>();
    private final Map<String, ActiveMQMessage> sent = new HashMap<>();
    private final Client own;

    /** A connection with one session; a consumer has one of its own, since policies are a connection's. */
    private record Client(Connection connection, Session session, MessageConsumer consumer, List<Object> heard) {}

    private ClassicDriver(String url, String jmx) throws Exception {
        this.url = url;
        management = JMXConnectorFactory.connect(new JMXServiceURL(jmx)).getMBeanServerConnection();
        own = client(new ActiveMQConnectionFactory(url), Session.AUTO_ACKNOWLEDGE, null);
    }

    public static void main(String[] arguments) throws Exception {
        var driver = new ClassicDriver(arguments[0], arguments[1]);
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (var line = lines.readLine(); line != null; line = lines.readLine()) {
            var reply = new HashMap<String, Object>();
            try {
                reply.put("is", driver.does(JSON.readTree(line)));
            } catch (Exception error) {
                reply.put("error", error.toString());
            }
            System.out.println(JSON.writeValueAsString(reply));
        }
        System.exit(0); // without a word to the broker, as a process that ends
    }

    private Object does(JsonNode ask) throws Exception {
        var client = clients.get(ask.path("consumer").asText());
        switch (ask.get("verb").asText()) {
            case "open" -> open(ask);
            case "send" -> { return send(client == null ? own : client, ask); }
            case "again" -> again(sent.get(ask.get("id").asText()));
            case "receive" -> { return seen(client.consumer().receive(ask.get("wait").asLong())); }
            case "listen" -> client.consumer().setMessageListener(message -> fail(client, message));
            case "heard" -> { return List.copyOf(client.heard()); }
            case "commit" -> client.session().commit();
            case "rollback" -> client.session().rollback();
            case "recover" -> client.session().recover();
            case "close" -> client.connection().close();
            case "find" -> { return find(ask.get("body").asText()); }
            case "retry" -> management.invoke(
                named(QUEUES.toString().replace("*", ask.get("dead").asText())), "retryMessages", null, null);
            default -> throw new IllegalArgumentException("no such verb: " + ask);
        }
        return null;
    }

    private void open(JsonNode ask) throws Exception {
        var factory = new ActiveMQConnectionFactory(url);
        for (var policy : List.of("policy", "client")) {
            if (ask.has(policy)) {
                JSON.updateValue(factory.getRedeliveryPolicy(), ask.get(policy));
            }
        }
        factory.setNonBlockingRedelivery(ask.path("non_blocking").asBoolean());
        factory.getPrefetchPolicy().setQueuePrefetch(ask.path("prefetch").asInt(1000));
        var mode = switch (ask.get("mode").asText()) {
            case "transacted" -> Session.SESSION_TRANSACTED;
            case "client" -> Session.CLIENT_ACKNOWLEDGE;
            default -> Session.AUTO_ACKNOWLEDGE;
        };
        clients.put(ask.get("consumer").asText(), client(factory, mode, ask.get("queue").asText()));
    }

    private static Client client(ActiveMQConnectionFactory factory, int mode, String queue) throws JMSException {
        var connection = factory.createConnection();
        var session = connection.createSession(mode == Session.SESSION_TRANSACTED, mode);
        var consumer = queue == null ? null : session.createConsumer(session.createQueue(queue));
        connection.start();
        return new Client(connection, session, consumer, Collections.synchronizedList(new ArrayList<>()));
    }

    private String send(Client client, JsonNode ask) throws JMSException {
        var message = client.session().createTextMessage(ask.get("body").asText());
        if (ask.has("delay")) {
            message.setLongProperty(ScheduledMessage.AMQ_SCHEDULED_DELAY, ask.get("delay").asLong());
        }
        for (var header : (Iterable<Map.Entry<String, JsonNode>>) ask.path("headers")::fields) {
            message.setStringProperty(header.getKey(), header.getValue().asText());
        }
        var queue = client.session().createQueue(ask.get("queue").asText());
        var producer = client.session().createProducer(queue);
        var kept = ask.path("persistent").asBoolean(true) ? 2 : 1; // as DeliveryMode numbers them
        producer.send(message, kept, ask.path("priority").asInt(4), ask.path("ttl").asLong());
        sent.put(message.getJMSMessageID(), (ActiveMQMessage) message);
        return message.getJMSMessageID();
    }

    /** As a client sends again what it has no answer to after its connection broke. */
    private void again(ActiveMQMessage message) throws JMSException {
        var copy = (ActiveMQMessage) message.copy();
        copy.setProducerId(message.getMessageId().getProducerId());
        copy.onSend();
        ((ActiveMQConnection) own.connection()).syncSendPacket(copy);
    }

    private static void fail(Client client, Message message) {
        try {
            client.heard().add(seen(message));
        } catch (JMSException error) {
            client.heard().add(error.toString());
        }
        throw new IllegalStateException("negative total");
    }

    private static Map<String, Object> seen(Message message) throws JMSException {
        if (message == null) {
            return null;
        }
        var at = System.nanoTime() / 1_000_000;
        var count = message.getIntProperty("JMSXDeliveryCount");
        return Map.of("at", at, "count", count, "body", ((TextMessage) message).getText(),
            "id", message.getJMSMessageID());
    }

    /** Where the messages with this body are. */
    private List<Object> find(String body) throws Exception {
        var found = new ArrayList<>();
        for (var name : management.queryNames(QUEUES, null)) {
            if ((Long) management.getAttribute(name, "QueueSize") > 0) {
                var queue = name.getKeyProperty("destinationName");
                var browser = own.session().createBrowser(own.session().createQueue(queue));
                for (var message : Collections.list((Enumeration<?>) browser.getEnumeration())) {
                    if (message instanceof TextMessage text && text.getText().startsWith(body)) {
                        found.add(letter(queue, (ActiveMQMessage) message, text.getText()));
                    }
                }
                browser.close();
            }
        }
        return found;
    }

    private static Map<String, Object> letter(String queue, ActiveMQMessage message, String body) throws Exception {
        var origin = message.getOriginalDestination();
        var headers = new HashMap<String, String>();
        for (var name : Collections.list((Enumeration<?>) message.getPropertyNames())) {
            headers.put((String) name, message.getStringProperty((String) name));
        }
        var letter = new HashMap<String, Object>(Map.of("queue", queue, "body", body, "id", message.getJMSMessageID(),
            "priority", message.getJMSPriority()));
        letter.put("origin", origin == null ? queue : origin.getPhysicalName());
        letter.put("cause", headers.getOrDefault("dlqDeliveryFailureCause", ""));
        letter.put("headers", headers);
        return letter;
    }

    private static ObjectName named(String text) {
        try {
            return new ObjectName(text);
        } catch (MalformedObjectNameException error) {
            throw new IllegalArgumentException(error);
        }
    }
}
