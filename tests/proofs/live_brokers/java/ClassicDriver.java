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

/** The verbs on ActiveMQ Classic. */
public final class ClassicDriver extends JmsDriver {
    private static final ObjectName QUEUES = named("org.apache.activemq:type=Broker,brokerName=live,"
        + "destinationType=Queue,destinationName=*");

    private final String url;
    private final MBeanServerConnection management;
    private final Map<String, ActiveMQMessage> sent = new HashMap<>();

    private ClassicDriver(String url, String jmx) throws Exception {
        this.url = url;
        management = JMXConnectorFactory.connect(new JMXServiceURL(jmx)).getMBeanServerConnection();
    }

    public static void main(String[] arguments) throws Exception {
        new ClassicDriver(arguments[0], arguments[1]).serve();
    }

    @Override
    ConnectionFactory factory(JsonNode ask) throws Exception {
        var factory = new ActiveMQConnectionFactory(url);
        for (var policy : List.of("policy", "client")) {
            if (ask.has(policy)) {
                JSON.updateValue(factory.getRedeliveryPolicy(), ask.get(policy));
            }
        }
        factory.setNonBlockingRedelivery(ask.path("non_blocking").asBoolean());
        factory.getPrefetchPolicy().setQueuePrefetch(ask.path("prefetch").asInt(1000));
        return factory;
    }

    @Override
    void prepare(Message message, JsonNode ask) throws JMSException {
        if (ask.has("delay")) {
            message.setLongProperty(ScheduledMessage.AMQ_SCHEDULED_DELAY, ask.get("delay").asLong());
        }
    }

    @Override
    String sent(Message message) throws JMSException {
        sent.put(message.getJMSMessageID(), (ActiveMQMessage) message);
        return super.sent(message);
    }

    @Override
    Object other(Client client, JsonNode ask) throws Exception {
        switch (ask.get("verb").asText()) {
            case "again" -> again(sent.get(ask.get("id").asText()));
            case "retry" -> management.invoke(
                named(QUEUES.toString().replace("*", ask.get("dead").asText())), "retryMessages", null, null);
            default -> throw new IllegalArgumentException("no such verb: " + ask);
        }
        return null;
    }

    /** As a client sends again what it has no answer to after its connection broke. */
    private void again(ActiveMQMessage message) throws JMSException {
        var copy = (ActiveMQMessage) message.copy();
        copy.setProducerId(message.getMessageId().getProducerId());
        copy.onSend();
        ((ActiveMQConnection) own().connection()).syncSendPacket(copy);
    }

    @Override
    List<Object> find(String body) throws Exception {
        var found = new ArrayList<>();
        for (var name : management.queryNames(QUEUES, null)) {
            if ((Long) management.getAttribute(name, "QueueSize") > 0) {
                var queue = name.getKeyProperty("destinationName");
                var browser = own().session().createBrowser(own().session().createQueue(queue));
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
