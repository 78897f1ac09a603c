import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import javax.jms.Connection;
import javax.jms.ConnectionFactory;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.Session;
import javax.jms.TextMessage;

/** The verbs of tests/proofs/live_brokers/driver.py by JMS: a line of JSON in, a line out. */
abstract class JmsDriver {
    static final ObjectMapper JSON = new ObjectMapper();
    private static final int PERSISTENT = 2;
    private static final int NON_PERSISTENT = 1;

    private final Map<String, Client> clients = new HashMap<>();
    private Client own;

    /** A connection with one session; a consumer has one of its own, since policies are a connection's. */
    record Client(Connection connection, Session session, MessageConsumer consumer, List<Object> heard,
        Map<String, Message> held) {}

    /** For a connection with these settings of a consumer; for our own without any. */
    abstract ConnectionFactory factory(JsonNode ask) throws Exception;

    /** Say what this broker's JMS has no name for, before a message is sent. */
    abstract void prepare(Message message, JsonNode ask) throws JMSException;

    /** Where the messages are whose body begins so. */
    abstract List<Object> find(String body) throws Exception;

    /** A verb that only this broker has. */
    abstract Object other(Client client, JsonNode ask) throws Exception;

    /** JMS' acknowledge modes, and what else this broker has. */
    int mode(String name) {
        return switch (name) {
            case "transacted" -> Session.SESSION_TRANSACTED;
            case "client" -> Session.CLIENT_ACKNOWLEDGE;
            default -> Session.AUTO_ACKNOWLEDGE;
        };
    }

    /** Of whoever sends and browses. */
    final Client own() {
        return own;
    }

    final void serve() throws Exception {
        own = client(factory(JSON.createObjectNode()), Session.AUTO_ACKNOWLEDGE, null);
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (var line = lines.readLine(); line != null; line = lines.readLine()) {
            var reply = new HashMap<String, Object>();
            try {
                reply.put("is", does(JSON.readTree(line)));
            } catch (Exception error) {
                reply.put("error", error.toString());
            }
            System.out.println(JSON.writeValueAsString(reply));
        }
        Runtime.getRuntime().halt(0); // without a word to the broker, as a process that ends
    }

    private Object does(JsonNode ask) throws Exception {
        var client = clients.get(ask.path("consumer").asText());
        switch (ask.get("verb").asText()) {
            case "ready" -> { } // it is connected
            case "open" -> clients.put(ask.get("consumer").asText(),
                client(factory(ask), mode(ask.get("mode").asText()), ask.get("queue").asText()));
            case "send" -> { return send(client == null ? own : client, ask); }
            case "receive" -> { return received(client, client.consumer().receive(ask.get("wait").asLong())); }
            case "listen" -> client.consumer().setMessageListener(message -> fail(client, message));
            case "heard" -> { return List.copyOf(client.heard()); }
            case "commit" -> client.session().commit();
            case "rollback" -> client.session().rollback();
            case "recover" -> client.session().recover();
            case "close" -> client.connection().close();
            case "find" -> { return find(ask.get("body").asText()); }
            default -> { return other(client, ask); }
        }
        return null;
    }

    private static Client client(ConnectionFactory factory, int mode, String queue) throws JMSException {
        var connection = factory.createConnection();
        var session = connection.createSession(mode == Session.SESSION_TRANSACTED, mode);
        var consumer = queue == null ? null : session.createConsumer(session.createQueue(queue));
        connection.start();
        return new Client(connection, session, consumer, Collections.synchronizedList(new ArrayList<>()),
            new HashMap<>());
    }

    final String send(Client client, JsonNode ask) throws JMSException {
        var message = client.session().createTextMessage(ask.get("body").asText());
        for (var header : (Iterable<Map.Entry<String, JsonNode>>) ask.path("headers")::fields) {
            message.setStringProperty(header.getKey(), header.getValue().asText());
        }
        if (ask.has("key")) {
            message.setStringProperty("JMSXGroupID", ask.get("key").asText());
        }
        prepare(message, ask);
        var producer = client.session().createProducer(client.session().createQueue(ask.get("queue").asText()));
        var kept = ask.path("persistent").asBoolean(true) ? PERSISTENT : NON_PERSISTENT;
        producer.send(message, kept, ask.path("priority").asInt(4), ask.path("ttl").asLong());
        return sent(message);
    }

    /** Its id. */
    String sent(Message message) throws JMSException {
        return message.getJMSMessageID();
    }

    private static void fail(Client client, Message message) {
        try {
            client.heard().add(seen(message));
        } catch (JMSException error) {
            client.heard().add(error.toString());
        }
        throw new IllegalStateException("negative total");
    }

    private static Map<String, Object> received(Client client, Message message) throws JMSException {
        if (message == null) {
            return null;
        }
        client.held().put(((TextMessage) message).getText(), message);
        return seen(message);
    }

    private static Map<String, Object> seen(Message message) throws JMSException {
        var at = System.nanoTime() / 1_000_000;
        var count = message.getIntProperty("JMSXDeliveryCount");
        return Map.of("at", at, "count", count, "body", ((TextMessage) message).getText(),
            "id", message.getJMSMessageID());
    }
}
