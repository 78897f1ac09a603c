import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Enumeration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import javax.jms.ConnectionFactory;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.QueueRequestor;
import javax.jms.QueueSession;
import javax.jms.TextMessage;
import org.apache.activemq.artemis.api.core.management.ResourceNames;
import org.apache.activemq.artemis.api.jms.management.JMSManagementHelper;
import org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory;
import org.apache.activemq.artemis.jms.client.ActiveMQQueueConnectionFactory;
import org.apache.qpid.jms.JmsConnectionFactory;

/** The verbs on ActiveMQ Artemis, by its own protocol, and for consumers that ask for it by AMQP. */
public final class ArtemisDriver extends JmsDriver {
    private static final String BODY = "live_body"; // management shows properties, and no bodies
    private static final String ANY = "{\"field\":\"\",\"operation\":\"\",\"value\":\"\"}";
    private static final int INDIVIDUAL = 101; // acknowledge mode of the client for AMQP, as its manual has it
    private static final Map<String, Integer> OUTCOMES = Map.of("ack", 1, "term", 2, "release", 3, "nak", 4);

    private final String port;
    private final QueueSession managing;
    private final QueueRequestor management;

    private ArtemisDriver(String port) throws Exception {
        this.port = port;
        var connection = new ActiveMQQueueConnectionFactory(url()).createQueueConnection();
        managing = connection.createQueueSession(false, QueueSession.AUTO_ACKNOWLEDGE);
        management = new QueueRequestor(managing, managing.createQueue("activemq.management"));
        connection.start();
    }

    public static void main(String[] arguments) throws Exception {
        new ArtemisDriver(arguments[0]).serve();
    }

    private String url() {
        return "tcp://127.0.0.1:" + port;
    }

    @Override
    ConnectionFactory factory(JsonNode ask) {
        if (ask.path("mode").asText().equals("amqp")) {
            return new JmsConnectionFactory("amqp://127.0.0.1:" + port + "?jms.prefetchPolicy.all=1");
        }
        var factory = new ActiveMQConnectionFactory(url());
        if (ask.has("prefetch")) { // bytes there: all of these messages, or none
            factory.setConsumerWindowSize(ask.get("prefetch").asInt() > 1 ? 1 << 20 : 0);
        }
        return factory;
    }

    @Override
    int mode(String name) {
        return name.equals("amqp") ? INDIVIDUAL : super.mode(name);
    }

    @Override
    void prepare(Message message, JsonNode ask) throws JMSException {
        message.setStringProperty(BODY, ask.get("body").asText());
        if (ask.has("delay")) {
            message.setLongProperty("_AMQ_SCHED_DELIVERY", System.currentTimeMillis() + ask.get("delay").asLong());
        }
        if (ask.has("id")) {
            message.setStringProperty("_AMQ_DUPL_ID", ask.get("id").asText());
        }
    }

    @Override
    Object other(Client client, JsonNode ask) throws Exception {
        var verb = ask.get("verb").asText();
        var queue = ResourceNames.QUEUE + ask.path("queue").asText();
        switch (verb) {
            case "ack", "term", "release", "nak" -> settle(client.held().get(ask.get("body").asText()), verb);
            case "again" -> send(own(), ask);
            case "retry" -> invoke(ResourceNames.QUEUE + ask.get("dead").asText(), "retryMessages");
            case "move" -> invoke(queue, "moveMessages", "", ask.get("to").asText());
            case "die" -> invoke(queue, "sendMessagesToDeadLetterAddress", "");
            case "expire" -> invoke(queue, "expireMessages", "");
            case "prioritize" -> invoke(queue, "changeMessagesPriority", "", ask.get("priority").asInt());
            case "browse" -> { return browse(ask.get("queue").asText()); }
            default -> throw new IllegalArgumentException("no such verb: " + ask);
        }
        return null;
    }

    private static void settle(Message message, String verb) throws JMSException {
        message.setIntProperty("JMS_AMQP_ACK_TYPE", OUTCOMES.get(verb));
        message.acknowledge();
    }

    private List<String> browse(String queue) throws JMSException {
        var bodies = new ArrayList<String>();
        var browser = own().session().createBrowser(own().session().createQueue(queue));
        for (var message : Collections.list((Enumeration<?>) browser.getEnumeration())) {
            bodies.add(((TextMessage) message).getText());
        }
        browser.close();
        return bodies;
    }

    @Override
    List<Object> find(String body) throws Exception {
        var found = new ArrayList<>();
        for (var queue : queues()) {
            if (queue.get("messageCount").asLong() > 0) {
                var name = queue.get("name").asText();
                var listed = List.of(invoke(ResourceNames.QUEUE + name, "listMessagesAsJSON", ""),
                    invoke(ResourceNames.QUEUE + name, "listScheduledMessagesAsJSON"));
                for (var json : listed) {
                    for (var message : JSON.readTree((String) json)) {
                        if (message.path(BODY).asText().startsWith(body)) {
                            found.add(letter(name, message));
                        }
                    }
                }
            }
        }
        return found;
    }

    /** All queues; asked once more where one of them went while they were listed, which Artemis does not bear. */
    private JsonNode queues() throws Exception {
        for (var more = 5;; more--) {
            try {
                return JSON.readTree((String) invoke(ResourceNames.BROKER, "listQueues", ANY, 1, 10_000)).get("data");
            } catch (IllegalStateException error) {
                if (more == 0) {
                    throw error;
                }
            }
        }
    }

    private static Map<String, Object> letter(String queue, JsonNode message) {
        var headers = new HashMap<String, String>();
        for (var field : (Iterable<Map.Entry<String, JsonNode>>) message::fields) {
            headers.put(field.getKey(), field.getValue().asText());
        }
        return Map.of("queue", queue, "body", message.get(BODY).asText(), "id", message.path("userID").asText(),
            "priority", message.path("priority").asInt(), "origin", message.path("_AMQ_ORIG_QUEUE").asText(queue),
            "cause", "", "headers", headers);
    }

    private Object invoke(String resource, String operation, Object... arguments) throws Exception {
        var message = managing.createMessage();
        JMSManagementHelper.putOperationInvocation(message, resource, operation, arguments);
        var reply = management.request(message);
        var result = JMSManagementHelper.getResult(reply);
        if (!JMSManagementHelper.hasOperationSucceeded(reply)) {
            throw new IllegalStateException(operation + ": " + result);
        }
        return result;
    }
}
