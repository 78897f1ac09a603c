import java.io.File;
import org.apache.activemq.artemis.core.config.FileDeploymentManager;
import org.apache.activemq.artemis.core.config.impl.FileConfiguration;
import org.apache.activemq.artemis.core.server.JournalType;
import org.apache.activemq.artemis.core.server.impl.ActiveMQServerImpl;

/** An Artemis with the broker.xml of this URL, in this directory, on this port of loopback. */
public final class ArtemisServer {
    private ArtemisServer() {}

    public static void main(String[] arguments) throws Exception {
        var configuration = new FileConfiguration();
        new FileDeploymentManager(arguments[0]).addDeployable(configuration).readConfiguration();
        configuration.setBrokerInstance(new File(arguments[1]));
        configuration.setJournalType(JournalType.NIO);
        configuration.setSecurityEnabled(false);
        configuration.setMaxDiskUsage(-1); // it is not about this machine's disk
        configuration.clearAcceptorConfigurations();
        configuration.addAcceptorConfiguration("live", "tcp://127.0.0.1:" + arguments[2] + "?protocols=CORE,AMQP");
        new ActiveMQServerImpl(configuration).start();
    }
}
