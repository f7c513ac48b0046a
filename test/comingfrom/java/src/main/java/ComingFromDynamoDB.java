import com.amazonaws.services.dynamodbv2.AcquireLockOptions;
import com.amazonaws.services.dynamodbv2.AmazonDynamoDBLockClient;
import com.amazonaws.services.dynamodbv2.AmazonDynamoDBLockClientOptions;
import com.amazonaws.services.dynamodbv2.LockItem;
import java.util.concurrent.TimeUnit;
import software.amazon.awssdk.services.dynamodb.DynamoDbClient;

public class ComingFromDynamoDB {
    public static void main(String[] args) throws Exception {
        AmazonDynamoDBLockClientOptions options =
                AmazonDynamoDBLockClientOptions.builder(DynamoDbClient.create(), "locks")
                        .withTimeUnit(TimeUnit.SECONDS)
                        .withLeaseDuration(10L)
                        .withHeartbeatPeriod(3L)
                        .withCreateHeartbeatBackgroundThread(true)
                        .build();
        try (AmazonDynamoDBLockClient client = new AmazonDynamoDBLockClient(options);
                LockItem lock = client.acquireLock(AcquireLockOptions.builder("billing/nightly").build())) {
            while (!lock.isExpired()) {
                billOne();
            }
        }
    }

    private static void billOne() throws InterruptedException {
        Thread.sleep(100);
    }
}
